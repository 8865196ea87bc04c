{{/*
rolegate inside the Envoy of your own pods, as a library. With this chart as a dependency of yours, in mode `module`:

  initContainers:
    {{- include "rolegate.module.container" .Subcharts.rolegate | nindent 4 }}
    - name: envoy          # after it, as a native sidecar, or among the containers
      env:
        {{- include "rolegate.module.env" .Subcharts.rolegate | nindent 8 }}
      volumeMounts:
        {{- include "rolegate.module.mounts" .Subcharts.rolegate | nindent 8 }}
  volumes:
    {{- include "rolegate.module.volumes" .Subcharts.rolegate | nindent 4 }}

The pod's `securityContext` needs `fsGroup: 65532`: this group may read the hashes. Envoy's configuration has the filter,
with its settings and the policy `/etc/rolegate/policy`, or the URL of a bundle and the files of `bundle` in the values.
*/}}
{{- define "rolegate.module.container" -}}
- name: rolegate-module
  image: {{ include "rolegate.imageOf" (dict "root" . "image" .Values.moduleImage) | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  resources:
    requests: { cpu: 10m, memory: 16Mi }
    limits: { cpu: "1", memory: 32Mi }
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    seccompProfile: { type: RuntimeDefault }
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: { drop: [ALL] }
  volumeMounts:
    - { name: rolegate-module, mountPath: /modules }
{{- end -}}

{{- define "rolegate.module.env" -}}
# Where Envoy looks for librolegate.so.
- { name: ENVOY_DYNAMIC_MODULES_SEARCH_PATH, value: /modules }
{{- end -}}

{{- define "rolegate.module.mounts" -}}
- { name: rolegate-module, mountPath: /modules, readOnly: true }
{{ include "rolegate.mounts" (dict "root" . "prefix" "rolegate-") }}
{{- end -}}

{{- define "rolegate.module.volumes" -}}
# Mount it into Envoy's container read-only, and into no other: a process that can write there runs code in Envoy.
- name: rolegate-module
  emptyDir: { sizeLimit: 32Mi }
{{ include "rolegate.volumes" (dict "root" . "prefix" "rolegate-") }}
{{- end -}}
