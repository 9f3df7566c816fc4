/**
 * Ends a program that runs on a Node which is too old. Programs import it first, as their other modules may fail there.
 */
if (Number(process.versions.node.split('.')[0]) < 24) {
  console.error(`this is Node ${process.versions.node}: put Node 24 or later first in PATH`);
  process.exit(1);
}
