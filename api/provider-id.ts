/** Provider IDs, which several systems write for the same VM and not all alike. Workflow code imports this file. */

/**
 * What identifies a VM in a provider ID: the cloud and the last path segment, in lower case. The place between them is
 * left out: for one VM machine-controller-manager writes `aws:///<region>/<instance>` and the cloud's own controller
 * `aws:///<zone>/<instance>`, and the like for Azure and OpenStack. Azure does not always write capitals the same way.
 */
export function vmOf(providerID: string): string {
  const [cloud = ''] = providerID.split('://');
  return `${cloud} ${providerID.slice(providerID.lastIndexOf('/') + 1)}`.toLowerCase();
}
