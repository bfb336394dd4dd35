// Methods of each path, for requests without a route: 405 with `Allow` when the path is known, otherwise 404 with the nearest route.
// It may be slower than the router, which handles all other requests; a path up to `maxNamedChars` is compared in about a millisecond.
import { distance } from "fastest-levenshtein";
import type { Dialect } from "../errors/error-body.ts";
import { encodeModelName } from "../inference/model-path.ts";

interface KnownPath {
  readonly method: string;
  readonly url: string;
  readonly form: RegExp;
  readonly dialect: Dialect;
}

export interface OtherMethods {
  /** Value of the header `Allow`. */
  readonly allowed: string;
  /** Dialect of the path's surface. */
  readonly dialect: Dialect;
}

export interface NearRoute {
  readonly method: string;
  /** With parameters as in the API description. */
  readonly path: string;
  readonly dialect: Dialect;
}

/** A longer path is not compared with the routes. */
const maxNamedChars = 128;

/** Methods that the server handles itself for any path. */
const handledForAll: ReadonlySet<string> = new Set(["HEAD", "OPTIONS"]);

export class KnownPaths {
  readonly #paths: KnownPath[] = [];

  /** `url`: pattern of the router. */
  add(methods: string | readonly string[], url: string, dialect: Dialect): void {
    for (const method of [methods].flat()) this.#paths.push({ method, url: pathOf(url), form: formOf(url), dialect });
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

  /** Returns the route whose path differs in the fewest characters, if at most a third of its fixed ones do. `url`: as received. */
  nearest(method: string, url: string): NearRoute | undefined {
    const path = pathOf(url);
    if (path.length > maxNamedChars) return undefined;
    const parts = path.split("/");
    let bestScore = path.length;
    let best: KnownPath | undefined;
    for (const known of this.#paths) {
      if (handledForAll.has(known.method)) continue;
      const meant = filledWith(parts, known.url);
      if (Math.abs(meant.length - path.length) > bestScore) continue;
      // The same method wins among equally near paths.
      const score = distance(path, meant) + (known.method === method ? 0 : 0.5);
      if (score >= bestScore || score > fixedChars(known.url) / 3 + 0.5) continue;
      best = known;
      bestScore = score;
    }
    return best && { method: best.method, path: named(best.url), dialect: best.dialect };
  }
}

function formOf(url: string): RegExp {
  const parts = pathOf(url).split(/(:\w+|\*)/);
  const form = parts.map((part) =>
    part === "*" ? ".*" : part.startsWith(":") ? "[^/]+" : part.replaceAll(/[^\w/]/g, "\\$&"),
  );
  return new RegExp(`^${form.join("")}$`);
}

/** Replaces the parameters of a pattern with the parts at their positions. */
function filledWith(parts: readonly string[], pattern: string): string {
  const meant = pattern.split("/").map((part, n, all) => {
    if (part === "*") return parts.slice(all.length - 1).join("/");
    return part.startsWith(":") ? (parts[n] ?? part) : part;
  });
  return meant.join("/");
}

const fixedChars = (pattern: string): number => pattern.replaceAll(/:\w+|\*/g, "").length;

const named = (pattern: string): string => pattern.replaceAll(/:(\w+)/g, "{$1}").replace(/\*$/, "{model_name}");

/** Removes the query and the optional slash at the end. */
const pathOf = (url: string): string => url.replace(/\?.*$/s, "").replace(/(?<=.)\/$/, "");
