// Files of the new console, as `npm run build` writes them to console-next/dist. Names contain the hash of their content, so browsers
// may cache them without limit.
import { glob, readFile } from "node:fs/promises";
import { extname, join, sep } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";

const built = join(import.meta.dirname, "../../../../console-next/dist");

const types: Readonly<Record<string, string>> = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

export interface ConsoleFile {
  readonly type: string;
  readonly bytes: Buffer;
  readonly compressed: Buffer;
}

export interface ConsoleFiles {
  /** The page, in which each response puts its own values. */
  readonly page: string;
  /** Files by their name. */
  readonly files: ReadonlyMap<string, ConsoleFile>;
}

export const assetsPath = "/console/next/assets";

/** Returns a function that reads the files at its first call and keeps them. Undefined: the console was not built. */
export function consoleFiles(): () => Promise<ConsoleFiles | undefined> {
  let read: Promise<ConsoleFiles> | undefined;
  return async () => {
    read ??= readAll();
    try {
      return await read;
    } catch (error) {
      // Retry at the next request: it may be built, or the disk readable, by then.
      read = undefined;
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  };
}

async function readAll(): Promise<ConsoleFiles> {
  const page = await readFile(join(built, "index.html"), "utf8");
  const files = new Map<string, ConsoleFile>();
  for await (const name of glob(`assets/*{${Object.keys(types).join(",")}}`, { cwd: built })) {
    const bytes = await readFile(join(built, name));
    // In threads of their own: this thread also streams customers' requests.
    const compressed = await promisify(gzip)(bytes, { level: 9 });
    files.set(name.split(sep).at(-1) as string, { type: types[extname(name)] as string, bytes, compressed });
    await nextTurn();
  }
  return { page, files };
}
