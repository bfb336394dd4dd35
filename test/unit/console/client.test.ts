import { expect, it } from "vitest";
import { refusalOf } from "../../../console/api/client.ts";

const refused = (body: unknown, headers: Record<string, string>) =>
  refusalOf(new Response(JSON.stringify(body), { status: 402, headers }));

it("takes code, request id and the link to the explanation from a refusal", async () => {
  const body = { error: { message: "No funds left.", code: "insufficient_funds" } };
  const headers = { "x-request-id": "r1", link: '</docs/errors#insufficient_funds>; rel="help"' };
  expect(await refused(body, headers)).toMatchObject({
    message: "No funds left.",
    status: 402,
    code: "insufficient_funds",
    requestId: "r1",
    help: "/docs/errors#insufficient_funds",
  });
});

it("follows no link to another server", async () => {
  const link = '<https://example.com/>; rel="help"';
  expect((await refused({ error: "No." }, { link })).help).toBe("");
  expect((await refused({ error: "No." }, { link: '<//example.com/>; rel="help"' })).help).toBe("");
});
