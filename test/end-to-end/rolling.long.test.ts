import { describeRolling } from '../support/rolling.ts';

describeRolling({ replicas: 100, patienceMs: 600_000 });
