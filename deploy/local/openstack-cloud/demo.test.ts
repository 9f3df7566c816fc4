import { it } from '@jest/globals';
import { runShortTour } from '../../../test/support/short-tour.ts';

it(
  'the example of deploy/examples/openstack.yaml becomes three nodes in the demo, then four, then none, and leaves nothing',
  () => runShortTour('openstack'),
  600_000,
); // where the packages have to be downloaded
