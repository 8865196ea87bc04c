{{/*
rolegate as a native sidecar of your own pods. With this chart as a dependency of yours, in mode `sidecar`:

  initContainers:
    {{- include "rolegate.sidecar.container" .Subcharts.rolegate | nindent 4 }}
    - name: envoy          # after rolegate, and with the volume `rolegate-socket` at /run/rolegate
  volumes:
    {{- include "rolegate.sidecar.volumes" .Subcharts.rolegate | nindent 4 }}

The pod's `securityContext` needs `fsGroup: 65532`: this group may open the socket and read the hashes.
*/}}
{{- define "rolegate.sidecar.container" -}}
{{- $resources := dict "requests" (dict "cpu" "50m" "memory" "32Mi") "limits" (dict "cpu" "1" "memory" "128Mi") -}}
{{- $sidecar := dict "root" . "native" true "prefix" "rolegate-" "listen" "unix:/run/rolegate/rolegate.sock" -}}
{{- /* Nobody else can take over in this pod: when rolegate is told to stop, Envoy has already ended. */ -}}
{{- $_ := merge $sidecar (dict "drainDelay" "0s" "drainTimeout" "5s" "resources" $resources) -}}
- {{ include "rolegate.container" $sidecar | nindent 2 | trim }}
{{- end -}}

{{- define "rolegate.sidecar.volumes" -}}
{{ include "rolegate.volumes" (dict "root" . "prefix" "rolegate-") }}
# Never mount this into the application: it could answer Envoy itself, or try passwords without going through Envoy.
- name: rolegate-socket
  emptyDir: { medium: Memory, sizeLimit: 1Mi }
{{- end -}}
