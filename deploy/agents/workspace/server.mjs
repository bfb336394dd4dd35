// Program of the example agent instance. Lists and serves the files of its volume on PORT, as HTML for browsers (the dashboard).
// An image of the catalogue must listen on PORT, store persistent data under STOKER_VOLUME, and finish responses and exit on SIGTERM.
import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { createServer } from "node:http";
import { join, normalize } from "node:path";
import { pipeline } from "node:stream";

const volume = process.env.STOKER_VOLUME ?? "/data";

const server = createServer(async (request, response) => {
  try {
    const path = normalize(decodeURIComponent(new URL(request.url ?? "/", "http://here").pathname));
    const found = await stat(join(volume, path));
    // `pipeline` closes the file when the client disconnects, and a read error does not stop the process.
    if (!found.isDirectory()) return void pipeline(createReadStream(join(volume, path)), response, () => {});
    const names = await readdir(join(volume, path));
    const isBrowser = request.headers.accept?.includes("text/html");
    response.writeHead(200, { "content-type": isBrowser ? "text/html; charset=utf-8" : "application/json" });
    response.end(isBrowser ? page(path, names) : JSON.stringify(names));
  } catch {
    response.writeHead(404).end();
  }
});

function page(path, names) {
  const base = (path.endsWith("/") ? path : `${path}/`).split("/").map(encodeURIComponent).join("/");
  const links = names.map((name) => `<li><a href="${base}${encodeURIComponent(name)}">${escaped(name)}</a></li>`);
  return `<!doctype html><title>Workspace</title><h1>${escaped(path)}</h1><ul>${links.join("")}</ul>\n`;
}

const escaped = (text) => text.replace(/[&<>]/g, (one) => `&#${one.charCodeAt(0)};`);

server.listen(Number(process.env.PORT ?? 8000), "0.0.0.0");
// Data in the kernel's buffers is lost when the container stops. So each connection is closed after its response, and the process
// exits when all are closed. Idle connections are closed at once.
const idle = new Set();
let isEnding = false;
server.on("connection", (socket) => {
  idle.add(socket);
  socket.once("close", () => idle.delete(socket));
});
server.on("request", ({ socket }, response) => {
  idle.delete(socket);
  response.once("close", () => {
    if (isEnding) socket.end();
    else if (!socket.destroyed) idle.add(socket);
  });
});

/** Shorter than the ten seconds after which the container is killed. */
const endMs = 8_000;
for (const signal of ["SIGTERM", "SIGINT"])
  process.once(signal, () => {
    console.log("stopping: no new requests, open responses finish");
    isEnding = true;
    server.close(() => process.exit(0));
    for (const socket of idle) socket.destroy();
    setTimeout(() => process.exit(0), endMs).unref();
  });
