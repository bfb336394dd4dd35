// Requests of a gateway that gives up at moments an honest client of `data-path.ts` cannot choose.
import { once } from "node:events";
import { request } from "node:http";
import { FrameSocket, frameKind, sharedPath, sharedProtocol, withFields } from "../../proto/frames.ts";
import { signTicket, type Ticket } from "../../proto/ticket.ts";
import { type Carrier, ticketFor, ticketKey } from "./data-path.ts";

const part = Buffer.from('{"model":"fake/model",');
const pathOf = (ticket: Ticket) => `/i/${ticket.instanceId}/v1/chat/completions`;
const noBytes = Buffer.alloc(0);

async function openFrames(port: number): Promise<FrameSocket> {
  const asking = request({
    host: "127.0.0.1",
    port,
    path: sharedPath,
    headers: { connection: "upgrade", upgrade: sharedProtocol },
  });
  asking.end();
  const [, socket, first] = await once(asking, "upgrade");
  return new FrameSocket(socket, first, { frame() {}, drained() {}, closed() {} });
}

/** Sends a request whose body stays incomplete. `cut` gives it up. */
export async function sendHalf(port: number, carrier: Carrier): Promise<{ ticket: Ticket; cut: () => void }> {
  const ticket = ticketFor();
  const signed = signTicket(ticket, ticketKey);
  if (carrier === "shared") {
    const frames = await openFrames(port);
    frames.send(frameKind.request, 1, withFields([pathOf(ticket), "application/json", signed], part));
    return { ticket, cut: () => frames.send(frameKind.reset, 1, noBytes) };
  }
  const headers = { "content-type": "application/json", "content-length": 1000, "x-stoker-ticket": signed };
  const asking = request({ host: "127.0.0.1", port, method: "POST", path: pathOf(ticket), headers });
  asking.on("error", () => {});
  await new Promise<void>((sent) => asking.write(part, () => sent()));
  return { ticket, cut: () => asking.destroy() };
}

/** Sends a request and its reset in one write: the agent's answer and the reset cross on the wire. */
export async function sendAndReset(port: number, change: Partial<Ticket>): Promise<Ticket> {
  const ticket = ticketFor(change);
  const frames = await openFrames(port);
  const fields = [pathOf(ticket), "application/json", signTicket(ticket, ticketKey)];
  frames.send(frameKind.wholeRequest, 1, withFields(fields, Buffer.from("{}")));
  frames.send(frameKind.reset, 1, noBytes);
  return ticket;
}
