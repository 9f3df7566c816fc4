/**
 * The SDK's `Duration` comes from `ms`, whose types do not resolve under nodenext: without this, `'5 minuts'` passes.
 */
declare module 'ms' {
  type Unit =
    | 'ms'
    | 's'
    | 'm'
    | 'h'
    | 'd'
    | ' seconds'
    | ' second'
    | ' minutes'
    | ' minute'
    | ' hours'
    | ' hour'
    | ' days'
    | ' day'
    | ' ms';
  export type StringValue = `${number}` | `${number}${Unit}`;
  export default function ms(value: StringValue): number;
}
