{{- define "millwright.name" -}}
{{- .Values.fullnameOverride | default (.Release.Name | trunc 50 | trimSuffix "-") -}}
{{- end -}}

{{- /* Name of the account of a component. Takes root and component. */ -}}
{{- define "millwright.account" -}}
{{- (index .root.Values .component).serviceAccount.name | default (printf "%s-%s" (include "millwright.name" .root) .component) -}}
{{- end -}}

{{- /* The users as which Millwright logs in, as JSON, which CEL reads. */ -}}
{{- define "millwright.accounts" -}}
{{- $accounts := list -}}
{{- range $component := list "controllers" "workers" -}}
{{- $accounts = append $accounts (printf "system:serviceaccount:%s:%s" $.Release.Namespace (include "millwright.account" (dict "root" $ "component" $component))) -}}
{{- end -}}
{{- .Values.admissionPolicy.accounts | default $accounts | toJson -}}
{{- end -}}

{{- /* Applies a policy in a namespace. Takes root, name and namespace. */ -}}
{{- define "millwright.policyBinding" }}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "millwright.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: {{ .root.Values.admissionPolicy.actions | toJson }}
  matchResources:
    namespaceSelector:
      matchLabels: {kubernetes.io/metadata.name: {{ .namespace }}}
{{- end }}

{{- /* A Role or ClusterRole that is bound to an account. Takes root, kind, name, namespace for a Role, rules and account. */ -}}
{{- define "millwright.role" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "millwright.labels" .root | nindent 4 }}
rules:
{{ .rules | indent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "millwright.labels" .root | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ .kind }}, name: {{ .name }}}
subjects:
  - {kind: ServiceAccount, name: {{ .account }}, namespace: {{ .root.Release.Namespace }}}
{{- end }}

{{- define "millwright.machineNamespace" -}}
{{- .Values.machineNamespace | default .Release.Namespace -}}
{{- end -}}

{{- /* An endpoint of a ServiceMonitor or PodMonitor, from its values. */ -}}
{{- define "millwright.endpoint" -}}
# The label namespace is that of the object that a metric is about.
- port: metrics
  honorLabels: true
  {{- with .interval }}
  interval: {{ . }}
  {{- end }}
  {{- with .scrapeTimeout }}
  scrapeTimeout: {{ . }}
  {{- end }}
  {{- with .relabelings }}
  relabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .metricRelabelings }}
  metricRelabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "millwright.labels" -}}
app.kubernetes.io/name: millwright
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* The labels of an object that has more than all others. Takes root and labels. */ -}}
{{- define "millwright.labelsWith" -}}
{{- merge (dict) .labels (include "millwright.labels" .root | fromYaml) | toYaml -}}
{{- end -}}

{{- define "millwright.selector" -}}
app.kubernetes.io/name: millwright
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- /* The settings that a component gets as environment, so that `millwright doctor` in its Pod has them, too. Takes root and component. */ -}}
{{- define "millwright.env" -}}
{{- $values := .root.Values -}}
{{- $env := dict "NAMESPACE" (include "millwright.machineNamespace" .root) "PORT" "10258" "LOG_FORMAT" "json" -}}
{{- with $values.installation }}{{ $_ := set $env "INSTALLATION" . }}{{ end -}}
{{- $target := $values.clusters.target -}}
{{- if $values.clusters.control.kubeconfigSecret -}}
{{- $_ := set $env "CONTROL_KUBECONFIG" "/etc/millwright/control/kubeconfig" -}}
{{- else if or $target.kubeconfigSecret $target.none -}}
{{- $_ := set $env "CONTROL_KUBECONFIG" "inClusterConfig" -}}
{{- end -}}
{{- $_ := set $env "TARGET_KUBECONFIG" (ternary "none" (ternary "/etc/millwright/target/kubeconfig" "inClusterConfig" (ne $target.kubeconfigSecret "")) $target.none) -}}
{{- with $values.temporal -}}
{{- $_ := set $env "TEMPORAL_ADDRESS" .address -}}
{{- $_ := set $env "TEMPORAL_NAMESPACE" .namespace -}}
{{- if ne (toString .tls.enabled) "" }}{{ $_ := set $env "TEMPORAL_TLS" (toString .tls.enabled) }}{{ end -}}
{{- if .tls.secret -}}
{{- $keys := .tls.keys | default (list "ca.crt" "tls.crt" "tls.key") -}}
{{- if has "ca.crt" $keys }}{{ $_ := set $env "TEMPORAL_TLS_CA" "/etc/millwright/temporal-tls/ca.crt" }}{{ end -}}
{{- if has "tls.crt" $keys -}}
{{- $_ := set $env "TEMPORAL_TLS_CERT" "/etc/millwright/temporal-tls/tls.crt" -}}
{{- $_ := set $env "TEMPORAL_TLS_KEY" "/etc/millwright/temporal-tls/tls.key" -}}
{{- end -}}
{{- end -}}
{{- with .tls.serverName }}{{ $_ := set $env "TEMPORAL_TLS_SERVER_NAME" . }}{{ end -}}
{{- if .apiKeySecret }}{{ $_ := set $env "TEMPORAL_API_KEY_FILE" "/etc/millwright/temporal-api-key/apiKey" }}{{ end -}}
{{- if .codecKeysSecret }}{{ $_ := set $env "TEMPORAL_CODEC_KEYS" "/etc/millwright/temporal-codec-keys" }}{{ end -}}
{{- end -}}
{{- $service := include "millwright.name" .root -}}
{{- $names := list (printf "%s.%s" $service .root.Release.Namespace) (printf "%s-fleet.%s" $service .root.Release.Namespace) -}}
{{- $_ := set $env "ALLOWED_HOSTS" (concat $names $values.allowedHosts | join ",") -}}
{{- if and (eq .component "workers") $values.workers.providers -}}
{{- $_ := set $env "PROVIDERS" (join "," $values.workers.providers) -}}
{{- end -}}
{{- if and (eq .component "controllers") $values.fleetPage.enabled -}}
{{- $_ := set $env "FLEET_PORT" "10259" -}}
{{- with $values.fleetPage.temporalUi }}{{ $_ := set $env "TEMPORAL_UI" . }}{{ end -}}
{{- end -}}
{{- range $name, $value := $env }}
- {name: MILLWRIGHT_{{ $name }}, value: {{ $value | quote }}}
{{- end -}}
{{- end -}}

{{- /* The Secrets that are mounted under /etc/millwright, by the name of their folder. */ -}}
{{- define "millwright.secrets" -}}
{{- $secrets := dict -}}
{{- with .Values.clusters.control.kubeconfigSecret }}{{ $_ := set $secrets "control" . }}{{ end -}}
{{- with .Values.clusters.target.kubeconfigSecret }}{{ $_ := set $secrets "target" . }}{{ end -}}
{{- with .Values.temporal.tls.secret }}{{ $_ := set $secrets "temporal-tls" . }}{{ end -}}
{{- with .Values.temporal.apiKeySecret }}{{ $_ := set $secrets "temporal-api-key" . }}{{ end -}}
{{- with .Values.temporal.codecKeysSecret }}{{ $_ := set $secrets "temporal-codec-keys" . }}{{ end -}}
{{- $secrets | toJson -}}
{{- end -}}

{{- /* A Deployment. Takes root, component, command and isScaled. */ -}}
{{- define "millwright.deployment" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $own := index $values .component -}}
{{- $secrets := include "millwright.secrets" $root | fromJson -}}
{{- $volumes := concat $values.volumes $own.volumes -}}
{{- $mounts := concat $values.volumeMounts $own.volumeMounts -}}
{{- $component := .component -}}
{{- range $mount := $mounts -}}
{{- $found := false -}}
{{- range $volumes }}{{ if eq .name $mount.name }}{{ $found = true }}{{ end }}{{ end -}}
{{- if not $found }}{{ fail (printf "%s: volumeMounts has %q, and volumes has no volume of this name: add it to volumes or %s.volumes" $component $mount.name $component) }}{{ end -}}
{{- end -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "millwright.name" $root }}-{{ .component }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "millwright.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  {{- if not .isScaled }}
  replicas: {{ $own.replicas }}
  {{- end }}
  revisionHistoryLimit: {{ $values.revisionHistoryLimit }}
  {{- with $values.strategy }}
  strategy:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "millwright.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "millwright.labelsWith" (dict "root" $root "labels" (merge (dict "app.kubernetes.io/component" .component) $own.podLabels $values.podLabels)) | nindent 8 }}
      {{- with merge (dict) $own.podAnnotations $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "millwright.account" . }}
      {{- with $values.clusters }}
      # The token of the account is for a cluster without a kubeconfig: the one that the Pods run in.
      automountServiceAccountToken: {{ not (and .control.kubeconfigSecret (or .target.kubeconfigSecret .target.none)) }}
      {{- end }}
      enableServiceLinks: false
      # 28 s for what is under way.
      terminationGracePeriodSeconds: 30
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      {{- with concat $values.image.pullSecrets ($values.global.imagePullSecrets | default list) }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ if kindIs "string" . }}{{ . }}{{ else }}{{ .name }}{{ end }}
        {{- end }}
      {{- end }}
      {{- with $values.dnsPolicy }}
      dnsPolicy: {{ . }}
      {{- end }}
      {{- with $values.dnsConfig }}
      dnsConfig:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: millwright
          {{- with $values.image }}
          {{- $tag := .tag | default (ternary $root.Chart.AppVersion "" (empty .digest)) }}
          {{- $repository := .repository }}
          {{- with $values.global.imageRegistry }}
          {{- $repository = printf "%s/%s" . (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "") }}
          {{- end }}
          image: {{ $repository }}{{ with $tag }}:{{ . }}{{ end }}{{ with .digest }}@{{ . }}{{ end }}
          imagePullPolicy: {{ .pullPolicy }}
          {{- end }}
          args:
            - {{ .command }}
            {{- range $own.args }}
            - {{ . | quote }}
            {{- end }}
          env:
            {{- include "millwright.env" . | trim | nindent 12 }}
            {{- with concat $values.env $own.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with concat $values.envFrom $own.envFrom }}
          envFrom:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            - {name: metrics, containerPort: 10258, protocol: TCP}
            {{- if and $values.fleetPage.enabled (eq .component "controllers") }}
            - {name: fleet, containerPort: 10259, protocol: TCP}
            {{- end }}
          livenessProbe:
            httpGet: {path: /livez, port: metrics}
            {{- toYaml $own.livenessProbe | nindent 12 }}
          readinessProbe:
            httpGet: {path: /readyz, port: metrics}
            {{- toYaml $own.readinessProbe | nindent 12 }}
          resources:
            {{- toYaml $own.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            {{- range $folder, $_ := $secrets }}
            - {name: {{ $folder }}, mountPath: /etc/millwright/{{ $folder }}, readOnly: true}
            {{- end }}
            {{- with $mounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir: {}
        {{- range $folder, $secret := $secrets }}
        - name: {{ $folder }}
          secret: {secretName: {{ $secret }}}
        {{- end }}
        {{- with $volumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $own.priorityClassName | default $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $own.nodeSelector | default $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $own.tolerations | default $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- $affinity := $own.affinity | default $values.affinity }}
      {{- with $affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- $spread := $own.topologySpreadConstraints | default $values.topologySpreadConstraints }}
      {{- if not (or $affinity $spread) }}
      {{- $spread = list (dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway") }}
      {{- end }}
      {{- with $spread }}
      topologySpreadConstraints:
        {{- $selector := dict "labelSelector" (dict "matchLabels" (include "millwright.selector" $ | fromYaml)) }}
        {{- range . }}
        - {{- merge (dict) . (ternary dict $selector (hasKey . "labelSelector")) | toYaml | nindent 10 }}
        {{- end }}
      {{- end }}
{{- end -}}
