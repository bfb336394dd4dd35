import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { toBrowser, toDashboard } from "../../../../../control-plane/http/dashboards/dashboard-headers.ts";

const visitor = {
  host: "agent-1.localhost:8080",
  scheme: "http",
  ip: "203.0.113.9",
  cookie: "stoker-dashboard",
} as const;
const own = [
  ...["host", visitor.host, "x-forwarded-host", visitor.host],
  ...["x-forwarded-proto", "http", "x-forwarded-for", "203.0.113.9"],
];

describe("what a dashboard is sent", () => {
  it("has no key, cookie or header of ours, and nobody else's word on who the client is", () => {
    const secrets = [
      ...["Authorization", "Bearer stk_x", "X-API-Key", "stk_x", "xi-api-key", "stk_x", "X-Stoker-Ticket", "x"],
      ...[
        "X-Forwarded-For",
        "10.0.0.1",
        "Forwarded",
        "for=10.0.0.1",
        "X-Real-IP",
        "10.0.0.1",
        "Host",
        "api.example.com",
      ],
    ];
    expect(toDashboard([...secrets, "Cookie", "stoker-dashboard=secret"], visitor)).toEqual(own);
  });

  it("keeps the dashboard's own cookies and headers, twice where they came twice", () => {
    const sent = [
      "Cookie",
      "a=1; stoker-dashboard=secret; b=2",
      "Cookie",
      "c=3",
      "Accept",
      "text/html",
      "x-custom",
      "1",
    ];
    expect(toDashboard(sent, visitor)).toEqual([
      ...["Cookie", "a=1; b=2", "Cookie", "c=3", "Accept", "text/html", "x-custom", "1"],
      ...own,
    ]);
  });

  it("has nothing that is between two neighbours alone", () => {
    const sent = ["Connection", "keep-alive, X-Hop", "X-Hop", "1", "TE", "trailers", "Transfer-Encoding", "chunked"];
    expect(toDashboard([...sent, "Upgrade", "websocket", "Proxy-Authorization", "x"], visitor)).toEqual(own);
  });
});

describe("what a browser is sent", () => {
  it("has no cookie for other hosts, and none with the name of ours", () => {
    const cookies = [
      "a=1; Path=/",
      "b=2; Domain=example.com",
      "c=3;domain =.example.com",
      "d=4; DOMAIN",
      "stoker-dashboard=x",
    ];
    const passed = toBrowser(
      cookies.flatMap((value) => ["Set-Cookie", value]),
      visitor.cookie,
    );
    expect(passed).toEqual(["Set-Cookie", "a=1; Path=/"]);
  });

  it("has nothing that would reach beyond the dashboard's origin", () => {
    const answer = [
      "Clear-Site-Data",
      '"*"',
      "Strict-Transport-Security",
      "max-age=1",
      "Alt-Svc",
      "h2",
      "X-Stoker-A",
      "1",
      ...["X-Accel-Redirect", "/internal/secret", "X-Accel-Expires", "9", "X-Sendfile", "/etc/passwd"],
    ];
    const hops = ["Connection", "close", "Transfer-Encoding", "chunked", "Keep-Alive", "1"];
    const own = ["Content-Type", "text/event-stream", "X-Accel-Buffering", "no"];
    expect(toBrowser([...answer, ...hops, ...own], visitor.cookie)).toEqual(own);
  });

  it("has the name of a file in the bytes that the dashboard wrote", () => {
    // As undici gives them: a character for each byte.
    const bytes = Buffer.from('attachment; filename="é中.txt"').toString("latin1");
    const passed = toBrowser(["Content-Length", "2", "Content-Disposition", bytes], visitor.cookie);
    const response = new ServerResponse(new IncomingMessage(new Socket()));
    response.writeHead(200, passed);
    expect(passed).toContain(bytes);
  });
});
