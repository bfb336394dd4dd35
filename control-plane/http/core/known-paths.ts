// Methods of each path, for requests without a route: 405 with `Allow` when the path is known, otherwise 404. It may be slow,
// because the router handles all other requests.
import type { Dialect } from "../errors/error-body.ts";
import { encodeModelName } from "../inference/model-path.ts";

interface KnownPath {
  readonly method: string;
  readonly form: RegExp;
  readonly dialect: Dialect;
}

export interface OtherMethods {
  /** Value of the header `Allow`. */
  readonly allowed: string;
  /** Dialect of the path's surface. */
  readonly dialect: Dialect;
}

/** Methods that the server handles itself for any path. */
const handledForAll: ReadonlySet<string> = new Set(["HEAD", "OPTIONS"]);

export class KnownPaths {
  readonly #paths: KnownPath[] = [];

  /** `url`: pattern of the router. */
  add(methods: string | readonly string[], url: string, dialect: Dialect): void {
    for (const method of [methods].flat()) this.#paths.push({ method, form: formOf(url), dialect });
  }

  /** Returns undefined when this method is served at the address, or none is. `url`: as received. */
  otherMethods(method: string, url: string): OtherMethods | undefined {
    if (handledForAll.has(method)) return undefined;
    // The method decides how an address is read.
    const read = new Map<string, string>();
    const addressFor = (other: string): string => {
      const path = read.get(other) ?? pathOf(encodeModelName(other, url));
      read.set(other, path);
      return path;
    };
    const found = this.#paths.filter((known) => known.form.test(addressFor(known.method)));
    const allowed = new Set(found.map((known) => known.method));
    const [first] = found;
    if (!first || allowed.has(method)) return undefined;
    return { allowed: [...allowed].sort().join(", "), dialect: first.dialect };
  }
}

function formOf(url: string): RegExp {
  const parts = pathOf(url).split(/(:\w+|\*)/);
  const form = parts.map((part) =>
    part === "*" ? ".*" : part.startsWith(":") ? "[^/]+" : part.replaceAll(/[^\w/]/g, "\\$&"),
  );
  return new RegExp(`^${form.join("")}$`);
}

/** Removes the query and the optional slash at the end. */
const pathOf = (url: string): string => url.replace(/\?.*$/s, "").replace(/(?<=.)\/$/, "");
