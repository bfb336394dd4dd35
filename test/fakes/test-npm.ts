// Client libraries of npm that are too large for everybody's node_modules. `npm run test:nightly` brings them
// (scripts/test-npm.txt); whoever asks for one that is missing says what was not proven.
import { createRequire } from "node:module";
import { join } from "node:path";

export const testNpmHome = join(import.meta.dirname, "../../.cache/test-npm");
const requireThere = createRequire(join(testNpmHome, "package.json"));

export function hasPackage(name: string): boolean {
  try {
    requireThere.resolve(name);
    return true;
  } catch {
    return false;
  }
}

/** As the package exports it, of the shape that its caller declares. */
export const packageOf = <Exports>(name: string): Exports => requireThere(name) as Exports;
