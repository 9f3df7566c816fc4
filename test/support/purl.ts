/** Package URL of an entry of a lock file of npm: its path and its content. */
export function purlOf([path, { version }]: readonly [path: string, entry: { readonly version: string }]): string {
  const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
  return `pkg:npm/${name.replace(/^@/, '%40')}@${version}`;
}
