import { createHash } from "node:crypto";
import { type FileServer, sendFile, startFileServer } from "./file-server.ts";

export interface FakeHub extends FileServer {
  readonly commit: string;
  /** Sends downloads to another host, as hubs send theirs to a content network. */
  redirectTo: string | undefined;
}

export interface HubRepo {
  readonly repo: string;
  readonly files: Readonly<Record<string, Buffer>>;
  /** Refuses who does not bring this token. */
  readonly token?: string;
}

/** The hub protocol for one repository with the branch `main`: file list, metadata by HEAD, and the files themselves. */
export async function startHub({ repo, files, token }: HubRepo): Promise<FakeHub> {
  const commit = createHash("sha1").update(repo).digest("hex");
  const server = await startFileServer((faults) => (request, response, path) => {
    const refuse = (status: number, code: string): unknown =>
      response.writeHead(status, { "x-error-code": code, "x-error-message": code }).end();
    if (token !== undefined && request.headers.authorization !== `Bearer ${token}`)
      return request.headers.authorization ? refuse(403, "GatedRepo") : refuse(401, "GatedRepo");
    const json = (value: unknown): unknown =>
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
    const known = [`/${repo}/`, `/api/models/${repo}/`].find((start) => path.startsWith(start));
    if (known === undefined) return refuse(401, "RepoNotFound");
    const [what, revision = "", ...rest] = path.slice(known.length).split("/");
    if (revision !== "main" && revision !== commit) return refuse(404, "RevisionNotFound");
    if (what === "revision") return json({ sha: commit, gated: false });
    if (what === "tree")
      return json(Object.entries(files).map(([name, file]) => ({ type: "file", path: name, size: file.length })));
    const file = files[rest.join("/")];
    if (what !== "resolve" || !file) return refuse(404, "EntryNotFound");
    const facts = {
      "x-repo-commit": commit,
      "x-linked-etag": `"${createHash("sha256").update(file).digest("hex")}"`,
      "x-linked-size": String(file.length),
    };
    if (hub.redirectTo !== undefined)
      return response.writeHead(302, { ...facts, location: `${hub.redirectTo}/${rest.join("/")}` }).end();
    return sendFile(request, response, file, faults, facts);
  });
  const hub: FakeHub = { ...server, commit, redirectTo: undefined };
  return hub;
}

/** A host that has files and nothing to do with the hub. */
export function startContentHost(files: Readonly<Record<string, Buffer>>): Promise<FileServer> {
  return startFileServer((faults) => (request, response, path) => {
    const file = files[path.slice(1)];
    if (file) sendFile(request, response, file, faults);
    else response.writeHead(404).end();
  });
}
