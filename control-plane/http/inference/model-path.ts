// Encodes the slash in model names as %2F before routing, so that a name is one segment of the path.

const getSuffix = "/versions|/schema/[^/]*";
const postSuffix = "/meta|/publicity";
const form = (suffix: string) => new RegExp(`^/models/(.+?)(${suffix})?(/?)$`);
const forms: Readonly<Record<string, RegExp>> = { POST: form(postSuffix) };
const otherForm = form(getSuffix);

/** One model in the compatibility API; nothing follows its name. */
const compatForm = /^((?:\/anthropic\/v1\/|\/v1\/(?:(?:compat|openai)\/)?)models\/)(.+?)(\/?)$/;

const prefixes = ["/models/", "/v1/", "/anthropic/v1/models/"];

/** Paths at the position of a name. */
const fixed: ReadonlySet<string> = new Set(["lora/list", "private/list", "deployment/list"]);

/** Returns any other URL unchanged. */
export function encodeModelName(method: string | undefined, url: string): string {
  if (!prefixes.some((prefix) => url.startsWith(prefix))) return url;
  const end = url.indexOf("?");
  const path = end < 0 ? url : url.slice(0, end);
  const compat = method === "GET" || method === "HEAD" ? compatForm.exec(path) : null;
  if (compat) return `${compat[1]}${compat[2]?.replaceAll("/", "%2F")}${compat[3]}${end < 0 ? "" : url.slice(end)}`;
  const [, name = "", suffix = "", slash = ""] = (forms[method ?? "GET"] ?? otherForm).exec(path) ?? [];
  if (!name.includes("/") || fixed.has(name)) return url;
  return `/models/${name.replaceAll("/", "%2F")}${suffix}${slash}${end < 0 ? "" : url.slice(end)}`;
}
