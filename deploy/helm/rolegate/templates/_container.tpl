{{/*
The container `rolegate`, without its place in a list. Takes a dictionary: `root`, the chart's own context; `listen`,
`drainDelay`, `drainTimeout`; `resources`, where the values have none; `native`, whether it is a native sidecar;
`preStopSleep`, the seconds before it is told to stop.
*/}}
{{- define "rolegate.container" -}}
{{- $root := .root -}}
{{- $tls := and (not .native) $root.Values.tls.existingSecret -}}
{{- $own := index $root.Values.settings "tls-certificate" -}}
{{- if and (not .native) $root.Values.tls.clientCa (not $tls) }}
{{- fail "values: `tls.clientCa` needs `tls.existingSecret`; with `settings.tls-certificate` write `settings.tls-client-ca`" }}
{{- end -}}
{{- /* The flags that other values set: given twice, rolegate would not start. */}}
{{- $taken := dict -}}
{{- if $tls }}
{{- $_ := set $taken "tls-certificate" "tls.existingSecret" }}
{{- $_ := set $taken "tls-key" "tls.existingSecret" }}
{{- if $root.Values.tls.clientCa }}
{{- $_ := set $taken "tls-client-ca" "tls.clientCa" }}
{{- end }}
{{- end }}
{{- with $root.Values.bundle }}
{{- if and .url .credentials.existingSecret }}
{{- $_ := set $taken "bundle-credentials" "bundle.credentials.existingSecret" }}
{{- end }}
{{- if and .url .ca.existingConfigMap }}
{{- $_ := set $taken "bundle-ca" "bundle.ca.existingConfigMap" }}
{{- end }}
{{- if and .url .cache.enabled }}
{{- $_ := set $taken "bundle-cache" "bundle.cache.enabled" }}
{{- end }}
{{- end }}
{{- range $name, $value := $taken }}
{{- if hasKey $root.Values.settings $name }}
{{- printf "values: `%s` and `settings.%s` are both set: leave one out" $value $name | fail }}
{{- end }}
{{- end }}
{{- /* Without a limit of the processor its threads are as many as the node's cores, and strangers' passwords fill the memory. */}}
{{- $resources := $root.Values.resources | default .resources -}}
{{- $limits := $resources.limits | default dict -}}
{{- if and (hasKey $limits "memory") (not (hasKey $limits "cpu")) }}
{{- range list "threads" "hash-threads" }}
{{- if eq (index $root.Values.settings . | default 0 | toString) "0" }}
{{- fail "values: `resources.limits` has `memory` but no `cpu`, so rolegate would run one thread per core of the node: set `resources.limits.cpu` too (`resources` replaces all defaults), or `settings.threads` and `settings.hash-threads`" }}
{{- end }}
{{- end }}
{{- end -}}
{{- /* The kubelet can probe neither a Unix socket nor loopback, and speaks no TLS in a gRPC probe: it runs a command. */}}
{{- $command := or .native $tls $own -}}
name: rolegate
image: {{ include "rolegate.image" $root | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
{{- if .native }}
# A native sidecar: it starts before Envoy and the application, and stops after them.
restartPolicy: Always
{{- end }}
args:
  - serve
  {{- with $root.Values.bundle }}
  {{- if .url }}
  - {{ printf "--policy=%s" .url | quote }}
  {{- range .publicKeys.names }}
  - --bundle-public-key=/etc/rolegate/bundle-keys/{{ . }}
  {{- end }}
  {{- if .credentials.existingSecret }}
  - --bundle-credentials=/etc/rolegate/bundle-credentials/{{ .credentials.name }}
  {{- end }}
  {{- if .ca.existingConfigMap }}
  - --bundle-ca=/etc/rolegate/bundle-ca/{{ .ca.name }}
  {{- end }}
  {{- if .cache.enabled }}
  - --bundle-cache=/var/lib/rolegate
  {{- end }}
  {{- else }}
  - --policy=/etc/rolegate/policy
  {{- end }}
  {{- end }}
  - --listen={{ .listen }}
  # Only on loopback, so that no other pod can delay the liveness probe.
  - --admin=127.0.0.1:9192
  # Prometheus connects from outside the pod. This listener serves only /metrics.
  - --metrics=0.0.0.0:9193
  {{- /* Not `merge`, which takes a 0 for a value that is missing. */}}
  {{- $flags := dict "drain-delay" .drainDelay "drain-timeout" .drainTimeout }}
  {{- range $name, $value := $root.Values.settings }}
  {{- $_ := set $flags $name $value }}
  {{- end }}
  {{- range $name, $value := $flags }}
  {{- /* Helm reads a number of a file as a float, and writes a large one as 1e+06. */}}
  {{- $number := kindIs "float64" $value }}
  - {{ printf "--%s=%v" $name (ternary (int64 $value) $value $number) | quote }}
  {{- end }}
  {{- if $tls }}
  - --tls-certificate=/etc/rolegate/tls/tls.crt
  - --tls-key=/etc/rolegate/tls/tls.key
  {{- with $root.Values.tls.clientCa }}
  - --tls-client-ca=/etc/rolegate/tls/{{ . }}
  {{- end }}
  {{- end }}
{{- with $root.Values.env }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  {{- if not .native }}
  - { name: grpc, containerPort: 9191 }
  {{- end }}
  - { name: authz-metrics, containerPort: 9193 }
# Whether the process answers, not whether it is ready: the kubelet kills a container whose startup probe fails, and a
# server of bundles or keys that is down is no reason to. Containers after a sidecar start then, perhaps before there is a
# policy: Envoy denies every request meanwhile, and the readiness probe keeps the pod out of its Services.
startupProbe:
  exec: { command: [/rolegate, health, --live] }
  periodSeconds: 1
  timeoutSeconds: 2
  failureThreshold: 60
readinessProbe:
  {{- if $command }}
  # A command, because the kubelet's gRPC probe reaches neither a Unix socket nor loopback, and speaks no TLS.
  exec: { command: [/rolegate, health] }
  {{- else }}
  # The same health check as Envoy's. It fails without a policy and during shutdown, so that no new Envoy connects.
  grpc: { port: 9191 }
  {{- end }}
  periodSeconds: {{ ternary 5 2 (default false .native) }}
  timeoutSeconds: 2
  failureThreshold: 2
# Restarts only a process that does not answer at all, not one with a bad policy or with a flooded Envoy port. That is
# why it is a command inside the pod.
livenessProbe:
  exec: { command: [/rolegate, health, --live] }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
{{- with .preStopSleep }}
# The pod has already left DNS, which Envoys see only after up to 35 s (answers are cached for 30 s, and asked for every 5 s):
# until then it answers as before. Otherwise draining a node could stop all replicas that an Envoy knows, since an evicted
# replica does not wait for `minReadySeconds` of its replacement.
lifecycle:
  preStop:
    sleep: { seconds: {{ int64 . }} }
{{- end }}
resources:
  {{- $resources | toYaml | nindent 2 }}
securityContext:
  {{- if .native }}
  # A different user from the application's, so that the application cannot read rolegate's memory.
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: { type: RuntimeDefault }
  {{- end }}
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
volumeMounts:
  {{- include "rolegate.mounts" . | nindent 2 }}
  {{- if $tls }}
  - { name: tls, mountPath: /etc/rolegate/tls, readOnly: true }
  {{- end }}
  {{- if .native }}
  - { name: rolegate-socket, mountPath: /run/rolegate }
  {{- end }}
{{- end -}}

{{/* Where a container has policy and users. Takes `root` and `prefix`. */}}
{{- define "rolegate.mounts" -}}
# Whole folders, because single files (`subPath`) are not updated after a change.
{{- with .root.Values.bundle }}
{{- if .url }}
- { name: {{ $.prefix }}bundle-keys, mountPath: /etc/rolegate/bundle-keys, readOnly: true }
{{- if .credentials.existingSecret }}
- { name: {{ $.prefix }}bundle-credentials, mountPath: /etc/rolegate/bundle-credentials, readOnly: true }
{{- end }}
{{- if .ca.existingConfigMap }}
- { name: {{ $.prefix }}bundle-ca, mountPath: /etc/rolegate/bundle-ca, readOnly: true }
{{- end }}
{{- if .cache.enabled }}
- { name: {{ $.prefix }}bundle-cache, mountPath: /var/lib/rolegate }
{{- end }}
{{- else }}
- { name: {{ $.prefix }}policy, mountPath: /etc/rolegate/policy, readOnly: true }
{{- end }}
{{- end }}
{{- if include "rolegate.usersName" .root }}
- { name: {{ .prefix }}users, mountPath: /etc/rolegate/users, readOnly: true }
{{- end }}
{{- end -}}

{{/* The volumes of policy and users. Takes `root` and `prefix`. */}}
{{- define "rolegate.volumes" -}}
{{- with .root.Values.bundle }}
{{- if .url -}}
- name: {{ $.prefix }}bundle-keys
  {{- if .publicKeys.existingSecret }}
  secret: { secretName: {{ .publicKeys.existingSecret }}, defaultMode: 0440 }
  {{- else }}
  configMap: { name: {{ .publicKeys.existingConfigMap }} }
  {{- end }}
{{- with .credentials.existingSecret }}
- name: {{ $.prefix }}bundle-credentials
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- with .ca.existingConfigMap }}
- name: {{ $.prefix }}bundle-ca
  configMap: { name: {{ . }} }
{{- end }}
{{- if .cache.enabled }}
- name: {{ $.prefix }}bundle-cache
  emptyDir: { sizeLimit: {{ .cache.sizeLimit }} }
{{- end }}
{{- else -}}
- name: {{ $.prefix }}policy
  configMap: { name: {{ include "rolegate.policyName" $.root }} }
{{- end }}
{{- end }}
{{- with include "rolegate.usersName" .root }}
- name: {{ $.prefix }}users
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- end -}}
