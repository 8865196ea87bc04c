{{/* What everything is called: the release, with `rolegate` in it. */}}
{{- define "rolegate.name" -}}
{{- if contains "rolegate" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-rolegate" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "rolegate.policyName" -}}
{{- .Values.policy.existingConfigMap | default (printf "%s-policy" (include "rolegate.name" .)) -}}
{{- end -}}

{{/* Where the policy is, as a sentence without its end. */}}
{{- define "rolegate.policyPlace" -}}
{{- if .Values.bundle.url -}}
The policy is the bundle at `bundle.url`
{{- else -}}
The policy is in the ConfigMap {{ include "rolegate.policyName" . }}
{{- end -}}
{{- end -}}

{{/* Empty where there are no users and no keys. */}}
{{- define "rolegate.usersName" -}}
{{- if .Values.users.existingSecret -}}
{{- .Values.users.existingSecret -}}
{{- else if .Values.users.files -}}
{{- printf "%s-users" (include "rolegate.name" .) -}}
{{- end -}}
{{- end -}}

{{/* What the pods of a shared service are found by. It never changes, or an upgrade would fail. */}}
{{- define "rolegate.selector" -}}
app.kubernetes.io/name: rolegate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: shared
{{- end -}}

{{- define "rolegate.labels" -}}
app.kubernetes.io/name: rolegate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "rolegate.image" -}}
{{- include "rolegate.imageOf" (dict "root" . "image" .Values.image) -}}
{{- end -}}

{{/* The name of an image of the values. Takes `root` and `image`. */}}
{{- define "rolegate.imageOf" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
