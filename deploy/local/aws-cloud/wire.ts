/** The query protocol of EC2: form-encoded requests, answers in XML. */
import { parseXML } from '@aws-sdk/xml-builder';
import { z } from 'zod';

/** Parameters of a request as sent, for example `InstanceId.1`. */
export type Params = Readonly<Record<string, string>>;

/** The content of an element: text, elements by their tags, or the elements `item` of a list. */
export type Content = string | readonly Content[] | { readonly [tag: string]: Content | undefined };
export type Elements = { readonly [tag: string]: Content | undefined };

/** A list of elements; an empty one looks like an empty text. */
export function list<Item extends z.ZodType>(item: Item) {
  return z.union([z.array(item), z.literal('').transform((): z.output<Item>[] => [])]);
}

/** An error that the cloud answers with. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Values of a list in a request: of `InstanceId.1`, `InstanceId.2`, ... in this order. */
export function valuesOf(params: Params, name: string): string[] {
  const values: string[] = [];
  for (let n = 1; params[`${name}.${n}`] !== undefined; n += 1) values.push(params[`${name}.${n}`] ?? '');
  return values;
}

/** The reverse of `valuesOf`. */
export function toParams(name: string, values: readonly string[]): Params {
  return Object.fromEntries(values.map((value, i) => [`${name}.${i + 1}`, value]));
}

/** A filter of a request for a list. */
export interface Filter {
  readonly name: string;
  readonly values: readonly string[];
}

/** The filters of a request. */
export function filtersOf(params: Params): Filter[] {
  const filters: Filter[] = [];
  for (let n = 1; params[`Filter.${n}.Name`] !== undefined; n += 1) {
    filters.push({ name: params[`Filter.${n}.Name`] ?? '', values: valuesOf(params, `Filter.${n}.Value`) });
  }
  return filters;
}

/** The reverse of `filtersOf`. */
export function toFilterParams(filters: readonly Filter[]): Params {
  const params = filters.map(({ name, values }, i) => ({
    [`Filter.${i + 1}.Name`]: name,
    ...toParams(`Filter.${i + 1}.Value`, values),
  }));
  return Object.assign({}, ...params);
}

/** Tags that a request has for what it creates of a type, for example `instance`. */
export function tagsFor(params: Params, resourceType: string): Record<string, string> {
  const tags: Record<string, string> = {};
  for (let n = 1; params[`TagSpecification.${n}.ResourceType`] !== undefined; n += 1) {
    if (params[`TagSpecification.${n}.ResourceType`] !== resourceType) continue;
    const prefix = `TagSpecification.${n}.Tag`;
    for (let m = 1; params[`${prefix}.${m}.Key`] !== undefined; m += 1) {
      tags[params[`${prefix}.${m}.Key`] ?? ''] = params[`${prefix}.${m}.Value`] ?? '';
    }
  }
  return tags;
}

/** The elements in the root element of an answer. */
export function parseAnswer(xml: string): Elements {
  const [root] = Object.values(parseXML(xml) as Elements);
  const { xmlns: _, ...elements } = toContent(root ?? '') as Elements;
  return elements;
}

/** The answer to an action of EC2. */
export function toAnswer(action: string, requestId: string, elements: Elements): string {
  const root = `${action}Response`;
  return `<${root} xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">${toXml({ ...elements, requestId })}</${root}>`;
}

/** The answer of EC2 to a request that it refuses, or that of the other services. */
export function toErrorAnswer(service: string, requestId: string, { code, message }: Refusal): string {
  const error = toXml({ Code: code, Message: message });
  return service === 'ec2'
    ? `<Response><Errors><Error>${error}</Error></Errors><RequestID>${requestId}</RequestID></Response>`
    : `<ErrorResponse><Error><Type>Sender</Type>${error}</Error><RequestId>${requestId}</RequestId></ErrorResponse>`;
}

/** What the parser returns, with lists as arrays: it makes an array only of an element that repeats. */
function toContent(parsed: Content): Content {
  if (typeof parsed === 'string') return parsed;
  if (Array.isArray(parsed)) return parsed.map(toContent);
  const elements = Object.entries(parsed as Elements);
  const [[tag, item] = [], ...more] = elements;
  if (tag === 'item' && more.length === 0 && item !== undefined) return [toContent(item)].flat();
  return Object.fromEntries(elements.map(([name, content]) => [name, toContent(content ?? '')]));
}

function toXml(content: Content): string {
  if (typeof content === 'string') return escape(content);
  if (Array.isArray(content)) return content.map((item: Content) => `<item>${toXml(item)}</item>`).join('');
  return Object.entries(content as Elements)
    .map(([tag, inner]) => (inner === undefined ? '' : `<${tag}>${toXml(inner)}</${tag}>`))
    .join('');
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
