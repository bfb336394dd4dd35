// What a neighbour is believed about weights while the hub does not answer.
import { createHash, randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type FileServer, startFileServer } from "../../fakes/file-server.ts";
import { anySignal, type CacheWorld, repo, startCacheWorld } from "./cache-world.ts";

const file = "tiny.gguf";
const right = Buffer.concat([Buffer.from("GGUF"), randomBytes(2_000_000)]);
const wrong = Buffer.concat([Buffer.from("GGUF"), randomBytes(2_000_000)]);
const digest = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");
const quiet = (): void => {};

let world: CacheWorld;
beforeEach(async () => {
  world = await startCacheWorld();
});
afterEach(() => world.end());

/** Says of every set that it is `wrong`, of this revision and commit. */
async function startNeighbour(revision: string, commit: string): Promise<FileServer> {
  const files = [{ path: file, sha256: digest(wrong), sizeBytes: wrong.length }];
  const server = await startFileServer(() => (_, response, path) => {
    if (path.startsWith("/weights/known/"))
      response.writeHead(200).end(JSON.stringify({ repo, revision, commit, entry: file, files }));
    else if (path === `/weights/blobs/${digest(wrong)}`)
      response.writeHead(200, { "content-length": String(wrong.length) }).end(wrong);
    else response.writeHead(404).end();
  });
  world.opened.push(server);
  return server;
}

it("a neighbour's word for a pinned commit holds only until the hub answers, and is not passed on", async () => {
  const hub = await world.hub({ [file]: right });
  const neighbour = await startNeighbour(hub.commit, hub.commit);
  const neighbours = async () => [{ origin: neighbour.url, hostId: "", ticket: "t" }];
  const asked = { repo, file, revision: hub.commit };
  const away = world.store(hub, { isOffline: true, neighbours });
  const { modelPath } = await away.ensure(asked, quiet, anySignal());
  expect(await readFile(modelPath)).toEqual(wrong);
  const served = await startFileServer(() => (request, response) => void away.serve(request, response));
  world.opened.push(served);
  expect((await fetch(`${served.url}/weights/known/${away.keyOf(asked)}`)).status).toBe(404);

  const back = world.store(hub, { neighbours });
  const found = await back.ensure(asked, quiet, anySignal());
  expect(await readFile(found.modelPath)).toEqual(right);
});

it.each([
  ["another revision", "dev", "main"],
  ["another commit than the pinned one", "0".repeat(40), "0".repeat(40)],
])("a neighbour that tells of %s is not believed", async (_, revision, commit) => {
  const hub = await world.hub({ [file]: right });
  const neighbour = await startNeighbour(revision, commit);
  const away = world.store(hub, {
    isOffline: true,
    neighbours: async () => [{ origin: neighbour.url, hostId: "", ticket: "t" }],
  });
  const asked = { repo, file, revision: hub.commit };
  await expect(away.ensure(asked, quiet, anySignal())).rejects.toThrow();
});
