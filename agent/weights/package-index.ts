// Reads the simple index of Python packages, in its JSON form and its older HTML form (mirrors often have only that).

export interface IndexFile {
  readonly name: string;
  readonly url: URL;
  readonly sha256: string | undefined;
  readonly sizeBytes: number | undefined;
}

export const indexAccept = "application/vnd.pypi.simple.v1+json, text/html;q=0.5";

/** `base` is the page's own address: links may be relative to it. */
export function readIndexPage(contentType: string, body: string, base: URL): IndexFile[] {
  return contentType.includes("json") ? fromJson(body, base) : fromHtml(body, base);
}

/** Returns the platform-independent wheel of this version; other wheels of a package hold the same data or machine code. */
export function chooseWheel(files: readonly IndexFile[], name: string, version: string): IndexFile | undefined {
  return files.find(({ name: file }) => {
    const [dist, found, ...tags] = file.replace(/\.whl$/i, "").split("-");
    if (!/\.whl$/i.test(file) || dist === undefined || tags.length < 3) return false;
    return normalised(dist) === normalised(name) && found === version && file.endsWith("-none-any.whl");
  });
}

export function normalised(name: string): string {
  return name.toLowerCase().replace(/[-_.]+/g, "-");
}

function fromJson(body: string, base: URL): IndexFile[] {
  interface Page {
    files?: { filename?: string; url?: string; hashes?: Record<string, string>; size?: number }[];
  }
  const files = (JSON.parse(body) as Page).files ?? [];
  return files.flatMap(({ filename, url, hashes, size }) => {
    if (!filename || !url || !URL.canParse(url, base)) return [];
    return [{ name: filename, url: new URL(url, base), sha256: hexOf(hashes?.["sha256"]), sizeBytes: size }];
  });
}

function fromHtml(body: string, base: URL): IndexFile[] {
  return [...body.matchAll(/<a\s[^>]*?href\s*=\s*(?:"([^"]*)"|'([^']*)')/gi)].flatMap(([, double, single]) => {
    const href = (double ?? single ?? "").replaceAll("&amp;", "&");
    if (!URL.canParse(href, base)) return [];
    const url = new URL(href, base);
    const sha256 = hexOf(new URLSearchParams(url.hash.slice(1)).get("sha256") ?? undefined);
    url.hash = "";
    const name = decodeURIComponent(url.pathname.split("/").pop() ?? "");
    return [{ name, url, sha256, sizeBytes: undefined }];
  });
}

function hexOf(text: string | undefined): string | undefined {
  return text !== undefined && /^[0-9a-f]{64}$/.test(text) ? text : undefined;
}
