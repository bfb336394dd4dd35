// Base of sinks that rewrite a response before they pass it to the client's sink.
import type { AnswerSink, SinkListener } from "../../inference/answer-sink.ts";
import type { ClientSink } from "./client-sink.ts";

export abstract class ForwardingSink<Client extends AnswerSink = ClientSink> {
  protected readonly client: Client;
  sent: Promise<void> | undefined;

  constructor(client: Client) {
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
