{{/* The name of all objects, at most 52 characters: the longest suffix of a pod must fit a label. */}}
{{- define "rollcall.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 36 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{/* The labels by which services, the policy and the budget choose the nodes of this release. They never change. */}}
{{- define "rollcall.selectorLabels" -}}
app.kubernetes.io/name: rollcall
app.kubernetes.io/component: node
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "rollcall.labels" -}}
{{ include "rollcall.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "rollcall.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "rollcall.secretName" -}}
{{ .Values.secret.name | default (include "rollcall.fullname" .) }}
{{- end -}}
