// Which methods a path takes, for a request that found no route: 405 with `Allow` where its path is known, else 404. Asked
// then alone, so it may be slow; the router answers everything else.
import type { Dialect } from "../errors/error-body.ts";
import { encodeModelName } from "../inference/model-path.ts";

interface KnownPath {
  readonly method: string;
  readonly form: RegExp;
  readonly dialect: Dialect;
}

export interface OtherMethods {
  /** As the header `Allow` says them. */
  readonly allowed: string;
  /** Of the surface that the path belongs to. */
  readonly dialect: Dialect;
}

/** What a server says of any path, in ways of its own. */
const askedOfAll: ReadonlySet<string> = new Set(["HEAD", "OPTIONS"]);

export class KnownPaths {
  readonly #paths: KnownPath[] = [];

  /** `url`: a pattern as the router takes it. */
  add(methods: string | readonly string[], url: string, dialect: Dialect): void {
    for (const method of [methods].flat()) this.#paths.push({ method, form: formOf(url), dialect });
  }

  /** Undefined: nothing is served at this address by other methods, or this one is served. `url`: as it came. */
  otherMethods(method: string, url: string): OtherMethods | undefined {
    if (askedOfAll.has(method)) return undefined;
    // How an address is read hangs on the method.
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

/** Without its query, and without a slash at its end, which is optional everywhere. */
const pathOf = (url: string): string => url.replace(/\?.*$/s, "").replace(/(?<=.)\/$/, "");
