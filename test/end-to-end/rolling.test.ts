import { describeRolling } from '../support/rolling.ts';

describeRolling({ replicas: 20, patienceMs: 180_000 });
