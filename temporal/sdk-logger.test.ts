import { describe, expect, it } from '@jest/globals';
import { recordingLogger } from '../test/support/kube.ts';
import { toSdkLogger } from './sdk-logger.ts';

describe('toSdkLogger', () => {
  it.each([
    [
      'gRPC call poll_workflow_task_queue retried 6 times',
      'Temporal does not answer: retrying',
      { call: 'poll_workflow_task_queue', retries: 6 },
    ],
    [
      '[TMPRL1104] 01a1feaa-5a24-74b2-9dd8-c455e414fbc2:4:1 Workflow task duration exceeded 5 seconds.',
      '[TMPRL1104] Workflow task duration exceeded 5 seconds.',
      { task: '01a1feaa-5a24-74b2-9dd8-c455e414fbc2:4:1' },
    ],
    ['Network error while completing activity', 'Network error while completing activity', {}],
  ])('makes "%s" static, without the task token', (message, text, fields) => {
    const { lines, ...logger } = recordingLogger();

    toSdkLogger(logger).warn(message, { namespace: 'default', taskToken: 'CiQ' });

    const component = { component: 'temporal', temporalNamespace: 'default' };
    expect(lines).toEqual([{ level: 'warn', fields: { ...component, ...fields }, message: text }]);
  });
});
