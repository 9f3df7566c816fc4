import type { UserDataValues } from '../../dialect.ts';
import { userDataPlaceholders } from '../names.ts';

/** Whether user data has to be rendered for each machine. */
export function isPersonal(userData: string): boolean {
  return Object.values(userDataPlaceholders).some((placeholder) => isIn(userData, placeholder));
}

/** Replaces the placeholders, as MCM does. */
export async function renderUserData(template: string, values: UserDataValues): Promise<string> {
  const { bootstrapToken, machineName } = userDataPlaceholders;
  const named = substitute(template, machineName, values.machineName);
  return isIn(template, bootstrapToken) ? substitute(named, bootstrapToken, await values.bootstrapToken()) : named;
}

function isIn(text: string, placeholder: string): boolean {
  return text.includes(placeholder) || text.includes(encodeURIComponent(placeholder));
}

/** Replaces all occurrences of a placeholder; its URL-encoded form only where the plain one is absent. */
function substitute(text: string, placeholder: string, value: string): string {
  return text.includes(placeholder)
    ? text.replaceAll(placeholder, () => value)
    : text.replaceAll(encodeURIComponent(placeholder), () => value);
}
