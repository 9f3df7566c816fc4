import { it } from '@jest/globals';
import { runShortTour } from '../../../test/support/short-tour.ts';

it(
  'the example of deploy/examples/azure.yaml becomes three nodes in the demo, then four, then none, and leaves nothing',
  () => runShortTour('azure'),
  600_000,
); // where the cloud has to be built
