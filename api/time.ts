/** RFC 3339 without fractions, as Kubernetes writes `metav1.Time`. */
export function toKubernetesTime(date: Date): string {
  return date.toISOString().replace(/\.\d+Z$/, 'Z');
}
