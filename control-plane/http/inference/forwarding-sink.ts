// Base of sinks that rewrite a response before they pass it to the client's sink.
import type { SinkListener } from "../../inference/answer-sink.ts";
import type { ClientSink } from "./client-sink.ts";

export abstract class ForwardingSink {
  protected readonly client: ClientSink;
  sent: Promise<void> | undefined;

  constructor(client: ClientSink) {
    this.client = client;
  }

  get hasStarted(): boolean {
    return this.client.hasStarted;
  }

  get isGone(): boolean {
    return this.client.isGone;
  }

  set listener(listener: SinkListener | undefined) {
    this.client.listener = listener;
  }

  get listener(): SinkListener | undefined {
    return this.client.listener;
  }

  abandon(): void {
    this.client.abandon();
  }
}
