// From a key to an answer: create a key, copy the code with everything filled in, or send the same request from the page.
import { Button, Group, SimpleGrid, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useRefresh } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { serverUrl, useVisitor } from "../../app/visitor.ts";
import { callCode } from "../../domain/call-snippets.ts";
import type { Answer, ChatRequest } from "../../domain/chat.ts";
import { keysPath, limitsPath, newKey as newKeyForm, rulesOf } from "../../domain/key-rules.ts";
import type { ModelSummary } from "../../domain/models.ts";
import { modelsFor, tryPage } from "../../domain/playground.ts";
import { chatExamples } from "../../domain/snippets.ts";
import { text } from "../../text/first-call.ts";
import { Code, CodeTabs, Command, Copy } from "../../ui/code.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { Link, LinkButton } from "../../ui/link.tsx";
import { ErrorNotice, Loaded } from "../../ui/notice.tsx";
import { Empty, Page, Section } from "../../ui/page.tsx";
import { useModels } from "../models/use-models.ts";
import { ChatFigures } from "../playground/figures.tsx";
import { MessageText } from "../playground/message-text.tsx";
import { chosenOf, ModelSelect } from "../playground/model-select.tsx";
import { useChatRun } from "../playground/use-chat-run.ts";

export function FirstCall(): ReactNode {
  const models = useModels();
  return (
    <Page title={text.title} about={text.about}>
      <Loaded query={models}>
        {(all) =>
          all.length === 0 ? (
            <Section>
              <Empty action={<LinkButton to="/deployments/new">{text.deploy}</LinkButton>}>{text.nothing}</Empty>
            </Section>
          ) : (
            <Steps models={all} />
          )
        }
      </Loaded>
    </Page>
  );
}

function Steps({ models }: { models: readonly ModelSummary[] }): ReactNode {
  const { newKey } = useVisitor();
  const [name, setName] = useFilter("model");
  const [language, setLanguage] = useFilter("language");
  const [prompt, setPrompt] = useState<string>(text.live.usualPrompt);
  const chats = modelsFor("chat", models);
  // Chat models first: they can be tried right here.
  const listed = [...chats, ...models.filter((one) => !chats.includes(one))];
  const model = chosenOf(listed, name);
  const isChat = chats.includes(model);
  const request: ChatRequest = {
    model: model.model_name,
    messages: [{ role: "user", content: prompt }],
    max_tokens: 256,
    temperature: 0.7,
  };
  const url = serverUrl();
  const examples: Readonly<Record<string, string>> = isChat
    ? chatExamples("chat", { url, key: newKey, request })
    : callCode({ url, model: model.model_name, task: model.type }).examples;
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
      <Stack gap="md">
        <KeyStep />
        <Section title={text.live.title} about={text.live.about}>
          {isChat ? (
            <LiveCall key={model.model_name} request={request} prompt={prompt} onPrompt={setPrompt} />
          ) : (
            <OtherTask of={model} />
          )}
        </Section>
      </Stack>
      <Section title={text.code.title} about={newKey && isChat ? text.code.about : text.code.aboutWithoutKey}>
        <Stack gap="md">
          <ModelSelect label={text.code.model} models={listed} value={model.model_name} onChange={setName} />
          <Text size="sm" component="div">
            {text.code.baseUrl}{" "}
            <span className="copied">
              <code>{`${url}/v1`}</code> <Copy value={`${url}/v1`} />
            </span>
          </Text>
          <CodeTabs examples={examples} value={language} onChange={setLanguage} />
        </Stack>
      </Section>
    </SimpleGrid>
  );
}

function KeyStep(): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const { newKey, setNewKey } = useVisitor();
  const create = async ({ name = "" }: Fields) => {
    const body = { name: name.trim(), ...rulesOf(newKeyForm, Date.now()) };
    setNewKey((await api.call<Responses["POST /v1/api-tokens"]>("POST", keysPath, body)).token);
    await refresh(keysPath, limitsPath);
  };
  if (newKey !== undefined)
    return (
      <Section title={text.key.title} about={text.key.once}>
        <Stack gap="sm">
          <Code value={newKey} label={text.key.made} />
          <Text size="sm" c="dimmed">
            {text.key.environment}
          </Text>
          <Command value={`export STOKER_API_KEY=${newKey}`} />
        </Stack>
      </Section>
    );
  return (
    <Section title={text.key.title} about={text.key.about}>
      <Form
        act={text.key.create}
        onSend={create}
        beside={
          <Text size="sm" c="dimmed">
            {text.key.others}{" "}
            <Link to="/keys" inherit>
              {text.key.manage}
            </Link>
          </Text>
        }
      >
        <TextInput label={text.key.name} name="name" defaultValue={text.key.usual} maxLength={128} required />
      </Form>
    </Section>
  );
}

interface LiveCallProps {
  readonly request: ChatRequest;
  readonly prompt: string;
  readonly onPrompt: (prompt: string) => void;
}

function LiveCall({ request, prompt, onPrompt }: LiveCallProps): ReactNode {
  const { newKey } = useVisitor();
  const { live, start, stop } = useChatRun();
  const [last, setLast] = useState<Answer | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const send = async () => {
    setError(undefined);
    setLast(undefined);
    // The key that was just made is used itself, so that the call proves that it works.
    const outcome = await start(request, newKey);
    setError(outcome.error);
    if (outcome.answer.requestId !== "") setLast(outcome.answer);
  };
  const answer = live ?? last;
  return (
    <Stack gap="sm">
      <Textarea
        label={text.live.prompt}
        value={prompt}
        autosize
        maxRows={6}
        maxLength={8000}
        onChange={(event) => onPrompt(event.currentTarget.value)}
      />
      <div>
        {live ? (
          <Button variant="default" onClick={stop}>
            {text.live.stop}
          </Button>
        ) : (
          <Button disabled={prompt.trim() === ""} onClick={() => void send()}>
            {text.live.send}
          </Button>
        )}
      </div>
      <ErrorNotice error={error} />
      {answer && (
        <section aria-label={text.live.answer} aria-busy={live !== undefined}>
          {answer.text === "" ? (
            <Text size="sm" c="dimmed">
              {live ? answer.reasoning || text.live.waiting : text.live.empty}
            </Text>
          ) : (
            <MessageText value={answer.text} />
          )}
          {last && <ChatFigures of={last} isPartial={error !== undefined} />}
        </section>
      )}
      {last && error === undefined && (
        <Group gap="sm" role="status" fz="sm">
          <span>{text.live.next}</span>
          <Link to={`/request-log/${encodeURIComponent(last.requestId)}`} inherit>
            {text.live.requestLog}
          </Link>
          <Link to="/usage" inherit>
            {text.live.usage}
          </Link>
          <Link to={`/playground?${new URLSearchParams({ model: request.model })}`} inherit>
            {text.live.playground}
          </Link>
        </Group>
      )}
    </Stack>
  );
}

function OtherTask({ of: model }: { of: ModelSummary }): ReactNode {
  const page = tryPage(model);
  return (
    <Stack gap="sm" align="flex-start">
      <Text size="sm">{page ? text.live.other : text.live.noPage}</Text>
      {page && <LinkButton to={page}>{text.live.playground}</LinkButton>}
    </Stack>
  );
}
