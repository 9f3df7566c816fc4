import type { ShownFault } from './faults.ts';
import type { Params } from './wire.ts';

/** A request as the server has read it. */
export interface Ec2Request {
  readonly action: string;
  readonly params: Params;
  readonly region: string;
  readonly faults: readonly ShownFault[];
  /** Also what is invisible, and instances that are terminated for so long that they are listed no more. */
  readonly seesAll: boolean;
}
