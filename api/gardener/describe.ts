import type { DescribeDialect } from '../dialect.ts';
import { operationText } from './owner.ts';
import type { Machine } from './schema/machine.ts';
import type { MachineDeployment } from './schema/machine-deployment.ts';

/** The status of a Machine as MCM and `kubectl describe` name its parts. */
export const describe: DescribeDialect = {
  machineRows({ status }: Machine, sinceText) {
    const { lastOperation: last, currentStatus } = status ?? {};
    const since = (time: string | undefined) => (time === undefined ? '' : `, ${sinceText(time)}`);
    return [
      ['Phase', `${currentStatus?.phase || '(new)'}${since(currentStatus?.lastUpdateTime)}`],
      ['Last operation', last && `${last.type} ${last.state}${since(last.lastUpdateTime)}: ${last.description}`],
    ];
  },
  failedMachinesOf({ status }: MachineDeployment) {
    const failed = status?.failedMachines ?? [];
    return failed.map(({ name = '', lastOperation = {} }) => ({ name, reason: operationText(lastOperation) }));
  },
};
