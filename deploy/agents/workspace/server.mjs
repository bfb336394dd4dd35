// The program of the example agent instance: answers on PORT, lists and shows the files of its volume; a browser sees them as
// pages, which is its dashboard. What an image of the catalogue must do is this little: listen on PORT, keep under STOKER_VOLUME
// what is to last, end on SIGTERM, with its open answers first.
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
    // Closed also when its reader leaves, and no end of this program when it cannot be read.
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
// What still lies in the kernel's buffers when a container ends is lost with its network: a connection whose answer has ended is
// closed, and the program ends when the other side has read all of it. Connections that are kept for later are no reason to wait.
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

/** Less than the ten seconds after which it would be killed. */
const endMs = 8_000;
for (const signal of ["SIGTERM", "SIGINT"])
  process.once(signal, () => {
    console.log("ends: nothing new is taken, open answers are finished");
    isEnding = true;
    server.close(() => process.exit(0));
    for (const socket of idle) socket.destroy();
    setTimeout(() => process.exit(0), endMs).unref();
  });
