import Fastify from "fastify";
import { expect, it } from "vitest";
import { listenOn } from "../../../../../control-plane/http/core/listen.ts";

it("an edge asked to listen at localhost has one server: every request meets the listeners that sort dashboards from the API", async () => {
  const app = Fastify();
  try {
    const port = await listenOn(app as unknown as Parameters<typeof listenOn>[0], { host: "localhost", port: 0 });
    expect(app.addresses()).toEqual([{ address: "127.0.0.1", family: "IPv4", port }]);
  } finally {
    await app.close();
  }
});
