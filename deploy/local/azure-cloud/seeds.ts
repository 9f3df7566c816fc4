import type { ArmSeeds } from './arm.ts';

/** What is there from the start, and who may use it. */
export interface Seeds extends ArmSeeds {
  readonly tenantId: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** PEM of the authority of the cloud's certificate. */
  readonly ca: string;
}

/**
 * VMs get their addresses from a network of this cloud's own: clouds may share a cluster. The port makes the
 * difference.
 */
export function subnetFor(port: number): string {
  const network = port % 2 ** 15;
  return `10.${network >> 7}.${(network & 127) << 1}.0/23`;
}
