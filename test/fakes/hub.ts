import { createHash } from "node:crypto";
import { type FileServer, sendFile, startFileServer } from "./file-server.ts";

export interface FakeHub extends FileServer {
  readonly commit: string;
  /** Sends downloads to another host, as hubs send theirs to a content network. */
  redirectTo: string | undefined;
  /** The list names no digests: each file's own headers do. */
  listsNoDigests: boolean;
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
    if (what === "revision")
      return json({ sha: commit, gated: false, siblings: Object.keys(files).map((rfilename) => ({ rfilename })) });
    if (what === "tree")
      return json(
        Object.entries(files).map(([name, file]) => (hub.listsNoDigests ? plain(name, file) : listed(name, file))),
      );
    const file = files[rest.join("/")];
    if (what !== "resolve" || !file) return refuse(404, "EntryNotFound");
    const facts = {
      "x-repo-commit": commit,
      ...(isLarge(file)
        ? { "x-linked-etag": `"${sha256(file)}"`, "x-linked-size": String(file.length), etag: `"${sha256(file)}"` }
        : { etag: `"${gitSha1(file)}"` }),
    };
    if (hub.redirectTo !== undefined)
      return response.writeHead(302, { ...facts, location: `${hub.redirectTo}/${rest.join("/")}` }).end();
    return sendFile(request, response, file, faults, facts);
  });
  const hub: FakeHub = Object.assign(server, { commit, redirectTo: undefined, listsNoDigests: false });
  return hub;
}

/** As a hub keeps them: large files by sha256, small ones in git. */
const isLarge = (file: Buffer): boolean => file.length > 500 || file.subarray(0, 4).toString("latin1") === "GGUF";
const sha256 = (file: Buffer): string => createHash("sha256").update(file).digest("hex");
const gitSha1 = (file: Buffer): string => createHash("sha1").update(`blob ${file.length}\0`).update(file).digest("hex");

const plain = (path: string, file: Buffer) => ({ type: "file", path, size: file.length });
const listed = (path: string, file: Buffer) =>
  isLarge(file)
    ? { ...plain(path, file), oid: "0".repeat(40), lfs: { oid: sha256(file), size: file.length } }
    : { ...plain(path, file), oid: gitSha1(file) };

/** A host that has files and nothing to do with the hub. */
export function startContentHost(files: Readonly<Record<string, Buffer>>): Promise<FileServer> {
  return startFileServer((faults) => (request, response, path) => {
    const file = files[path.slice(1)];
    if (file) sendFile(request, response, file, faults);
    else response.writeHead(404).end();
  });
}
