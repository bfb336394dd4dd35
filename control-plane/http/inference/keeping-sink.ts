// Client's side of a relayed response that is stored for repeats under the request's idempotency key. INVARIANT: the end of the
// response is sent after its claim was written, so that a client with the whole response can repeat the request.
import type { ServerResponse } from "node:http";
import type { Claim } from "../../accounts/idempotency.ts";
import { AnswerShare, type ResponseBuffer } from "../../inference/response-buffer.ts";
import type { RequestState } from "../core/request-state.ts";
import { ClientSink } from "./client-sink.ts";

/** Maximum stored response. */
const maxKeptBytes = 4 * 1024 * 1024;

export class KeepingSink extends ClientSink {
  readonly #claim: Claim;
  readonly #state: RequestState;
  readonly #share: AnswerShare;
  #head: { readonly status: number; readonly contentType: string } | undefined;
  #parts: Buffer[] = [];
  #bytes = 0;
  #ended: Promise<void> | undefined;

  constructor(res: ServerResponse, state: RequestState, claim: Claim, buffer: ResponseBuffer) {
    super(res, state);
    this.#claim = claim;
    this.#state = state;
    // A response that does not fit is streamed and not stored; it never waits for space.
    const drop = () => this.#drop();
    this.#share = new AnswerShare(buffer, this.account, { pause: drop, resume: () => {}, giveUp: drop });
  }

  override whole(status: number, contentType: string, rendered: Buffer | string): void {
    const body = typeof rendered === "string" ? Buffer.from(rendered) : rendered;
    const write = (claim: Claim) =>
      body.length > maxKeptBytes ? claim.spend() : claim.finish({ status, headers: this.#headers(contentType), body });
    this.#leave(write, () => super.whole(status, contentType, body));
  }

  override begin(status: number, contentType: string, contentLength: string | undefined): void {
    if (Number(contentLength ?? 0) <= maxKeptBytes) this.#head = { status, contentType };
    super.begin(status, contentType, contentLength);
  }

  override write(chunk: Buffer): void {
    if (this.#head) {
      this.#bytes += chunk.length;
      this.#parts.push(chunk);
      if (this.#bytes > maxKeptBytes) this.#drop();
      else this.#share.add(chunk.length);
    }
    super.write(chunk);
  }

  override end(): void {
    const head = this.#head;
    const body = Buffer.concat(this.#parts);
    const write = (claim: Claim) =>
      head
        ? claim.finish({ status: head.status, headers: this.#headers(head.contentType), body })
        : // A stream is not repeated.
          claim.spend();
    this.#leave(write, () => super.end());
  }

  /** Writes the end of the claim; only the first call has an effect. */
  conclude(write: (claim: Claim) => Promise<void>): Promise<void> {
    this.#ended ??= write(this.#claim).finally(() => this.#share.letGo());
    return this.#ended;
  }

  #leave(write: (claim: Claim) => Promise<void>, leave: () => void): void {
    void this.conclude(write).then(() => {
      if (!this.isGone) leave();
    });
  }

  #drop(): void {
    this.#head = undefined;
    this.#parts = [];
    this.#share.letGo();
  }

  #headers(contentType: string): readonly string[] {
    const { loweredMaxTokens: lowered, extraHeaders } = this.#state;
    const extra = lowered === undefined ? [] : ["x-stoker-max-tokens", String(lowered)];
    return ["content-type", contentType, ...extraHeaders, ...extra];
  }
}
