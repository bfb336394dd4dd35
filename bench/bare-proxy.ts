// Baseline: a proxy of Fastify and undici that only forwards requests. Run: node bench/bare-proxy.ts ENGINE_URL
import Fastify from "fastify";
import { Pool } from "undici";

const upstream = process.argv[2];
if (!upstream) throw new Error("usage: node bench/bare-proxy.ts ENGINE_URL");

const pool = new Pool(upstream, { connections: 256 });
const app = Fastify({ bodyLimit: 10 * 1024 * 1024 });
app.removeAllContentTypeParsers();
app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
app.post("/*", async (request, reply) => {
  const answer = await pool.request({
    method: "POST",
    path: request.url,
    headers: { "content-type": "application/json" },
    body: request.body as Buffer,
  });
  reply.code(answer.statusCode);
  for (const name of ["content-type", "content-length"]) {
    const value = answer.headers[name];
    if (value !== undefined) reply.header(name, value);
  }
  return reply.send(answer.body);
});
await app.listen({ host: "127.0.0.1", port: 0 });
const address = app.server.address();
process.stdout.write(`${JSON.stringify({ port: typeof address === "object" ? address?.port : undefined })}\n`);
