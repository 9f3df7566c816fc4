import { it } from '@jest/globals';
import { runShortTour } from '../../../test/support/short-tour.ts';

it(
  'the example of deploy/examples/aws.yaml becomes three nodes in the demo, then four, then none, and leaves nothing',
  () => runShortTour('aws'),
  600_000,
); // where moto has to be installed
