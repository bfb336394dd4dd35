// Messages of a conversation and the answer that arrives.
import { Box, Button, Code as CodeText, Group, Image, Loader, Stack, Text, Textarea } from "@mantine/core";
import { IconPencil, IconRefresh } from "@tabler/icons-react";
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from "react";
import type { Content, ToolCall } from "../../domain/chat.ts";
import { type Turn, textOf } from "../../domain/conversations.ts";
import { text as common } from "../../text/common.ts";
import { text } from "../../text/playground.ts";
import { Copy } from "../../ui/code.tsx";
import { ErrorNotice } from "../../ui/notice.tsx";
import { ChatFigures } from "./figures.tsx";
import { MessageText } from "./message-text.tsx";
import type { Talk } from "./use-conversation.ts";

const words = text.chat;

/** Closer than this to the end, the view follows the answer. */
const followPx = 80;

interface TranscriptProps {
  readonly turns: readonly Turn[];
  readonly talk: Talk;
  /** Shown while there are no messages. */
  readonly empty: ReactNode;
}

export function Transcript({ turns, talk, empty }: TranscriptProps): ReactNode {
  const { live, error } = talk;
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: at each new text.
  useEffect(() => {
    if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [turns, live, error]);
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current as HTMLDivElement;
    isAtEnd.current = scrollHeight - scrollTop - clientHeight < followPx;
  };
  const last = turns.at(-1);
  const pending = !live && last?.message.role === "assistant" ? (last.message.tool_calls ?? []) : [];
  return (
    <Box ref={box} className="transcript" onScroll={onScroll} tabIndex={0} role="region" aria-label={words.transcript}>
      {turns.length === 0 && !live && !error && empty}
      <ol className="turns">
        {turns.map((turn, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: turns are only added at the end.
          <TurnItem key={at} turn={turn} at={at} talk={talk} isLast={at === turns.length - 1} />
        ))}
        {live && (
          <li className="turn" data-role="assistant">
            <Role name={words.roles.assistant} />
            <AnswerBody text={live.text} reasoning={live.reasoning} calls={live.toolCalls} isOpen={live.text === ""} />
            {live.text === "" && live.reasoning === "" && live.toolCalls.length === 0 && (
              <Loader type="dots" size="sm" role="status" aria-label={words.waiting} />
            )}
          </li>
        )}
      </ol>
      {/* A screen reader hears complete answers, not each token. */}
      <div className="hidden-text" aria-live="polite">
        {!live && last?.message.role === "assistant" ? last.message.content : ""}
      </div>
      <ErrorNotice error={error} {...(turns.length > 0 ? { onRetry: talk.regenerate } : {})} />
      {pending.length > 0 && <ToolResults calls={pending} onSend={talk.sendResults} />}
    </Box>
  );
}

const Role = ({ name, model }: { name: string; model?: string | undefined }): ReactNode => (
  <Text size="xs" fw={600} c="dimmed">
    {name}
    {model && (
      <Text component="span" size="xs" c="dimmed" fw={400} ml={6}>
        {model}
      </Text>
    )}
  </Text>
);

interface TurnItemProps {
  readonly turn: Turn;
  readonly at: number;
  readonly talk: Talk;
  readonly isLast: boolean;
}

function TurnItem({ turn, at, talk, isLast }: TurnItemProps): ReactNode {
  const { message, model, reasoning = "", figures, isPartial = false } = turn;
  const [isEditing, setEditing] = useState(false);
  const content = textOf(message.content);
  const isBusy = talk.live !== undefined;
  const isAnswer = message.role === "assistant";
  return (
    <li className="turn" data-role={message.role}>
      <Role name={words.roles[message.role]} model={model} />
      {isEditing && message.role === "user" ? (
        <EditForm
          content={message.content}
          onCancel={() => setEditing(false)}
          onSend={(next) => {
            setEditing(false);
            talk.edit(at, next);
          }}
        />
      ) : isAnswer ? (
        <AnswerBody text={content} reasoning={reasoning} calls={message.tool_calls ?? []} />
      ) : (
        <UserContent content={message.content} />
      )}
      {isAnswer && isPartial && (
        <Text size="xs" c="dimmed" fs="italic">
          {words.partial}
        </Text>
      )}
      <Group gap="xs" justify="space-between" align="flex-start">
        {isAnswer && figures ? <ChatFigures of={figures} isPartial={isPartial} /> : <span />}
        {!isEditing && (
          <Group gap={2} wrap="nowrap">
            {content !== "" && <Copy value={content} label={words.copy} />}
            {message.role === "user" && (
              <Button
                size="compact-xs"
                variant="subtle"
                color="gray"
                disabled={isBusy}
                leftSection={<IconPencil size={14} />}
                onClick={() => setEditing(true)}
              >
                {words.edit}
              </Button>
            )}
            {isAnswer && isLast && (
              <Button
                size="compact-xs"
                variant="subtle"
                color="gray"
                disabled={isBusy}
                leftSection={<IconRefresh size={14} />}
                onClick={talk.regenerate}
              >
                {words.regenerate}
              </Button>
            )}
          </Group>
        )}
      </Group>
    </li>
  );
}

function UserContent({ content }: { content: Content }): ReactNode {
  const images =
    typeof content === "string" ? [] : content.flatMap((part) => (part.type === "image_url" ? [part] : []));
  return (
    <Stack gap="xs">
      <Text size="sm" component="div" className="message-text">
        {textOf(content)}
      </Text>
      {images.length > 0 && (
        <Group gap="xs">
          {images.map(({ image_url: { url } }, at) => (
            <Image key={url} src={url} alt={words.image(at + 1)} h={96} w="auto" radius="sm" />
          ))}
        </Group>
      )}
    </Stack>
  );
}

interface AnswerBodyProps {
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly ToolCall[];
  /** The reasoning is unfolded. */
  readonly isOpen?: boolean;
}

function AnswerBody({ text: value, reasoning, calls, isOpen = false }: AnswerBodyProps): ReactNode {
  return (
    <Stack gap="xs">
      {reasoning !== "" && (
        <details open={isOpen} className="reasoning">
          <summary>{words.reasoning}</summary>
          <Text size="xs" c="dimmed" component="div" className="message-text">
            {reasoning}
          </Text>
        </details>
      )}
      <MessageText value={value} />
      {calls.map(({ id, function: { name, arguments: args } }, at) => (
        <Box key={id || at} className="tool-call">
          <Text size="xs" fw={600}>
            {words.toolCall(name)}
          </Text>
          <CodeText block>{args}</CodeText>
        </Box>
      ))}
    </Stack>
  );
}

interface EditFormProps {
  readonly content: Content;
  readonly onSend: (content: Content) => void;
  readonly onCancel: () => void;
}

function EditForm({ content, onSend, onCancel }: EditFormProps): ReactNode {
  const [value, setValue] = useState(textOf(content));
  const send = (event: FormEvent) => {
    event.preventDefault();
    if (value.trim() === "") return;
    const images = typeof content === "string" ? [] : content.filter(({ type }) => type === "image_url");
    onSend(images.length === 0 ? value : [{ type: "text", text: value }, ...images]);
  };
  return (
    <form onSubmit={send}>
      <Textarea
        label={words.editTitle}
        description={words.editAbout}
        autosize
        minRows={2}
        maxRows={12}
        value={value}
        onChange={(event) => setValue(event.currentTarget.value)}
      />
      <Group gap="xs" mt="xs">
        <Button type="submit" size="xs">
          {words.send}
        </Button>
        <Button size="xs" variant="default" onClick={onCancel}>
          {common.cancel}
        </Button>
      </Group>
    </form>
  );
}

interface ToolResultsProps {
  readonly calls: readonly ToolCall[];
  readonly onSend: (results: readonly string[]) => void;
}

/** The user plays the program that the model calls. */
function ToolResults({ calls, onSend }: ToolResultsProps): ReactNode {
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    onSend(calls.map((_, at) => String(form.get(`result-${at}`) ?? "")));
  };
  return (
    <form onSubmit={send}>
      <Stack gap="xs" mt="sm">
        {calls.map(({ id, function: { name } }, at) => (
          <Textarea
            key={id || at}
            name={`result-${at}`}
            label={words.toolResult(name)}
            description={words.toolResultHint}
            autosize
            minRows={2}
            maxRows={8}
          />
        ))}
        <div>
          <Button type="submit" size="xs">
            {words.sendResults}
          </Button>
        </div>
      </Stack>
    </form>
  );
}
