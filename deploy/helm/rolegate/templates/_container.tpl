{{/*
The container `rolegate`, without its place in a list. Takes a dictionary: `root`, the chart's own context; `listen`,
`drainDelay`, `drainTimeout`; `resources`, where the values have none; `native`, whether it is a native sidecar.
*/}}
{{- define "rolegate.container" -}}
{{- $root := .root -}}
name: rolegate
image: {{ include "rolegate.image" $root | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
{{- if .native }}
# A native sidecar: up before Envoy and the application, and stopped after them.
restartPolicy: Always
{{- end }}
args:
  - serve
  - --policy=/etc/rolegate/policy
  - --listen={{ .listen }}
  # On loopback: no other pod can delay the liveness probe.
  - --admin=127.0.0.1:9192
  # Prometheus comes from outside the pod. There is /metrics and nothing else.
  - --metrics=0.0.0.0:9193
  {{- $defaults := dict "drain-delay" .drainDelay "drain-timeout" .drainTimeout }}
  {{- range $name, $value := merge (dict) $root.Values.settings $defaults }}
  - {{ printf "--%s=%v" $name $value | quote }}
  {{- end }}
ports:
  {{- if not .native }}
  - { name: grpc, containerPort: 9191 }
  {{- end }}
  - { name: authz-metrics, containerPort: 9193 }
# Until there is a policy, nothing else is asked, and a sidecar lets nothing start after it.
startupProbe:
  {{- if .native }}
  # The kubelet can ask neither a Unix socket nor loopback: so a command.
  exec: { command: [/rolegate, health] }
  {{- else }}
  grpc: { port: 9191 }
  {{- end }}
  periodSeconds: 1
  timeoutSeconds: 2
  failureThreshold: 60
readinessProbe:
  {{- if .native }}
  exec: { command: [/rolegate, health] }
  periodSeconds: 5
  timeoutSeconds: 2
  {{- else }}
  # What Envoy asks for, as Envoy asks it: no policy, or the end has begun, and no new Envoy comes.
  grpc: { port: 9191 }
  periodSeconds: 2
  timeoutSeconds: 2
  {{- end }}
  failureThreshold: 2
# Only a process that answers nothing at all is started again; a bad policy is no reason, and neither is a flood on the
# port that Envoys use: so a command inside the pod.
livenessProbe:
  exec: { command: [/rolegate, health, --live] }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
resources:
  {{- $root.Values.resources | default .resources | toYaml | nindent 2 }}
securityContext:
  {{- if .native }}
  # Another user than the application's: it cannot read rolegate's memory.
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: { type: RuntimeDefault }
  {{- end }}
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
volumeMounts:
  # Folders and not single files (`subPath`): only those follow a change.
  - { name: {{ .prefix }}policy, mountPath: /etc/rolegate/policy, readOnly: true }
  {{- if include "rolegate.usersName" $root }}
  - { name: {{ .prefix }}users, mountPath: /etc/rolegate/users, readOnly: true }
  {{- end }}
  {{- if .native }}
  - { name: rolegate-socket, mountPath: /run/rolegate }
  {{- end }}
{{- end -}}

{{/* The volumes of policy and users. Takes `root` and `prefix`. */}}
{{- define "rolegate.volumes" -}}
- name: {{ .prefix }}policy
  configMap: { name: {{ include "rolegate.policyName" .root }} }
{{- with include "rolegate.usersName" .root }}
- name: {{ $.prefix }}users
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- end -}}
