/** An error that the cloud answers with. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly details: readonly object[];

  constructor(
    status: number,
    code: string,
    message: string,
    { headers = {}, details = [] }: { headers?: Readonly<Record<string, string>>; details?: readonly object[] } = {},
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
    this.details = details;
  }
}

/** The body of an answer of Azure Resource Manager. */
export function toArmError({ code, message, details }: Refusal) {
  return { error: { code, message, ...(details.length > 0 && { details }) } };
}
