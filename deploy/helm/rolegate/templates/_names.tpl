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

{{/* The resources of a replica of the shared service, as YAML. */}}
{{- define "rolegate.shared.resources" -}}
{{- $limits := dict "cpu" "2" "memory" "256Mi" -}}
{{- .Values.resources | default (dict "requests" (dict "cpu" "250m" "memory" "64Mi") "limits" $limits) | toYaml -}}
{{- end -}}

{{/* Thousandths of a core, of a quantity such as `2`, `0.5` or `500m`. */}}
{{- define "rolegate.millicores" -}}
{{- $text := toString . -}}
{{- ternary (trimSuffix "m" $text | float64 | int64) (mulf (float64 $text) 1000 | int64) (hasSuffix "m" $text) -}}
{{- end -}}

{{/* The cores above which a replica is added. */}}
{{- define "rolegate.targetCpu" -}}
{{- $limits := (include "rolegate.shared.resources" . | fromYaml).limits | default dict -}}
{{- $limit := include "rolegate.millicores" ($limits.cpu | default 0) | int64 -}}
{{- $threads := mul 1000 (index .Values.settings "threads" | default 0 | int64) -}}
{{- $most := ternary $threads $limit (and (gt $threads 0) (or (eq $limit 0) (lt $threads $limit))) -}}
{{- with .Values.autoscaling.targetCpu -}}
{{- /* The autoscaler adds a replica only where the target is exceeded by a tenth. */}}
{{- if and $most (ge (mul 11 (include "rolegate.millicores" . | int64)) (mul 10 $most)) }}
{{- fail "values: `autoscaling.targetCpu` is so near to `resources.limits.cpu` (or `settings.threads`) that no replica would ever be added: leave it empty, or write less than ten elevenths of that" }}
{{- end -}}
{{- . -}}
{{- else -}}
{{- printf "%dm" (max 1 (div (ternary $most 2000 (gt $most 0)) 2)) -}}
{{- end -}}
{{- end -}}

{{/* Whole seconds, rounded up, of a duration as rolegate's settings have it. */}}
{{- define "rolegate.seconds" -}}
{{- $text := toString . -}}
{{- if not (regexMatch "^(0|[0-9]+(ms|s|m|h|d))$" $text) }}
{{- printf "values: `%s` is not a duration: write one such as `500ms`, `30s`, `5m`, `1h` or `2d`" $text | fail }}
{{- end -}}
{{- $number := regexFind "^[0-9]+" $text | int64 -}}
{{- $of := dict "ms" (div (add $number 999) 1000) "s" $number "m" (mul 60 $number) "h" (mul 3600 $number) "d" (mul 86400 $number) -}}
{{- index $of (regexFind "[a-z]+$" $text | default "s") -}}
{{- end -}}

{{/* How long a pod of the shared service has to stop. */}}
{{- define "rolegate.shared.gracePeriod" -}}
{{- $sum := int64 .Values.preStopSleepSeconds -}}
{{- range list "drain-delay" "drain-timeout" }}
{{- $value := ternary (index $.Values.settings .) "10s" (hasKey $.Values.settings .) }}
{{- $sum = add $sum (include "rolegate.seconds" $value | int64) }}
{{- end -}}
{{- with int64 .Values.terminationGracePeriodSeconds -}}
{{- if lt . $sum }}
{{- printf "values: `terminationGracePeriodSeconds` is less than `preStopSleepSeconds`, `drain-delay` and `drain-timeout` together, %d s: rolegate would be killed with requests in flight" $sum | fail }}
{{- end -}}
{{- . -}}
{{- else -}}
{{- add $sum 10 -}}
{{- end -}}
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
