// The program of the example agent instance: answers on PORT, lists and shows the files of its volume. What an image of the
// catalogue must do is this little: listen on PORT, keep under STOKER_VOLUME what is to last, end on SIGTERM.
import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { createServer } from "node:http";
import { join, normalize } from "node:path";

const volume = process.env.STOKER_VOLUME ?? "/data";

const server = createServer(async (request, response) => {
  try {
    const path = normalize(decodeURIComponent(new URL(request.url ?? "/", "http://here").pathname));
    const found = await stat(join(volume, path));
    if (found.isDirectory()) {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify(await readdir(join(volume, path))));
    } else createReadStream(join(volume, path)).pipe(response);
  } catch {
    response.writeHead(404).end();
  }
});
server.listen(Number(process.env.PORT ?? 8000), "0.0.0.0");
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => process.exit(0));
