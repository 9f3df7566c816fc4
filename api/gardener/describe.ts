import type { DescribeDialect } from '../dialect.ts';
import { operationText } from './owner.ts';
import type { Machine } from './schema/machine.ts';
import type { MachineDeployment } from './schema/machine-deployment.ts';

/** The status of a Machine as MCM and `kubectl describe` name its parts. */
export const describe: DescribeDialect = {
  machineRows({ status }: Machine) {
    const { lastOperation: last, currentStatus } = status ?? {};
    return [
      ['Phase', `${currentStatus?.phase || '(new)'}${sinceText(currentStatus?.lastUpdateTime)}`],
      ['Last operation', last && `${last.type} ${last.state}${sinceText(last.lastUpdateTime)}: ${last.description}`],
    ];
  },
  failedMachinesOf({ status }: MachineDeployment) {
    const failed = status?.failedMachines ?? [];
    return failed.map(({ name = '', lastOperation = {} }) => ({ name, reason: operationText(lastOperation) }));
  },
};

function sinceText(time: string | undefined): string {
  return time === undefined ? '' : `, since ${time}`;
}
