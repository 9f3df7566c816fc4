{{- define "millwright.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
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

{{- define "millwright.labels" -}}
app.kubernetes.io/name: millwright
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "millwright.selector" -}}
app.kubernetes.io/name: millwright
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- /* The arguments that controllers and workers share. */ -}}
{{- define "millwright.args" -}}
- --namespace={{ include "millwright.machineNamespace" . }}
{{- with .Values.installation }}
- --installation={{ . }}
{{- end }}
{{- if .Values.clusters.control.kubeconfigSecret }}
- --control-kubeconfig=/etc/millwright/control/kubeconfig
{{- else if or .Values.clusters.target.kubeconfigSecret .Values.clusters.target.none }}
- --control-kubeconfig=inClusterConfig
{{- end }}
{{- if .Values.clusters.target.none }}
- --target-kubeconfig=none
{{- else if .Values.clusters.target.kubeconfigSecret }}
- --target-kubeconfig=/etc/millwright/target/kubeconfig
{{- else }}
- --target-kubeconfig=inClusterConfig
{{- end }}
- --temporal-address={{ .Values.temporal.address }}
- --temporal-namespace={{ .Values.temporal.namespace }}
{{- if ne (toString .Values.temporal.tls.enabled) "" }}
- --temporal-tls={{ .Values.temporal.tls.enabled }}
{{- end }}
{{- if .Values.temporal.tls.secret }}
{{- if has "ca.crt" .Values.temporal.tls.keys }}
- --temporal-tls-ca=/etc/millwright/temporal-tls/ca.crt
{{- end }}
{{- if has "tls.crt" .Values.temporal.tls.keys }}
- --temporal-tls-cert=/etc/millwright/temporal-tls/tls.crt
- --temporal-tls-key=/etc/millwright/temporal-tls/tls.key
{{- end }}
{{- end }}
{{- with .Values.temporal.tls.serverName }}
- --temporal-tls-server-name={{ . }}
{{- end }}
{{- if .Values.temporal.apiKeySecret }}
- --temporal-api-key-file=/etc/millwright/temporal-api-key/apiKey
{{- end }}
- --port=10258
{{- $service := include "millwright.name" . }}
{{- $names := list (printf "%s.%s" $service .Release.Namespace) (printf "%s-fleet.%s" $service .Release.Namespace) }}
- --allowed-hosts={{ concat $names .Values.allowedHosts | join "," }}
- --log-format=json
{{- end -}}

{{- /* The Secrets that are mounted under /etc/millwright, by the name of their folder. */ -}}
{{- define "millwright.secrets" -}}
{{- $secrets := dict -}}
{{- with .Values.clusters.control.kubeconfigSecret }}{{ $_ := set $secrets "control" . }}{{ end -}}
{{- with .Values.clusters.target.kubeconfigSecret }}{{ $_ := set $secrets "target" . }}{{ end -}}
{{- with .Values.temporal.tls.secret }}{{ $_ := set $secrets "temporal-tls" . }}{{ end -}}
{{- with .Values.temporal.apiKeySecret }}{{ $_ := set $secrets "temporal-api-key" . }}{{ end -}}
{{- $secrets | toJson -}}
{{- end -}}

{{- /* A Deployment. Takes root, component, command and settings (replicas, resources, args); serves `providers` if given. */ -}}
{{- define "millwright.deployment" -}}
{{- $root := .root -}}
{{- $secrets := include "millwright.secrets" $root | fromJson -}}
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
  replicas: {{ .settings.replicas }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "millwright.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "millwright.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
      {{- with $root.Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "millwright.account" . }}
      {{- with $root.Values.clusters }}
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
      {{- with $root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      containers:
        - name: millwright
          image: {{ $root.Values.image.repository }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            - {{ .command }}
            {{- include "millwright.args" $root | nindent 12 }}
            {{- with .providers }}
            - --providers={{ join "," . }}
            {{- end }}
            {{- if and $root.Values.fleetPage.enabled (eq .component "controllers") }}
            - --fleet-port=10259
            {{- with $root.Values.fleetPage.temporalUi }}
            - --temporal-ui={{ . }}
            {{- end }}
            {{- end }}
            {{- range .settings.args }}
            - {{ . | quote }}
            {{- end }}
          ports:
            - {name: metrics, containerPort: 10258, protocol: TCP}
            {{- if and $root.Values.fleetPage.enabled (eq .component "controllers") }}
            - {name: fleet, containerPort: 10259, protocol: TCP}
            {{- end }}
          livenessProbe:
            httpGet: {path: /livez, port: metrics}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 3
          readinessProbe:
            httpGet: {path: /readyz, port: metrics}
            periodSeconds: 5
            timeoutSeconds: 5
          resources:
            {{- toYaml .settings.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            {{- range $folder, $_ := $secrets }}
            - {name: {{ $folder }}, mountPath: /etc/millwright/{{ $folder }}, readOnly: true}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir: {}
        {{- range $folder, $secret := $secrets }}
        - name: {{ $folder }}
          secret: {secretName: {{ $secret }}}
        {{- end }}
      {{- with $root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- else }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "millwright.selector" . | nindent 14 }}
      {{- end }}
{{- end -}}
