from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage

from driver import base, chat, key, question, serve, weather

model = ChatAnthropic(model=chat, base_url=base, api_key=key, max_tokens=1000, max_retries=0)


def tool():
    bound = model.bind_tools([weather])
    called = bound.invoke(question)
    [call] = called.tool_calls
    return bound.invoke([HumanMessage(question), called, ToolMessage(weather(**call["args"]), tool_call_id=call["id"])]).text


serve(
    {
        "messages": lambda: model.invoke(question).text,
        "messages stream": lambda: "".join(chunk.text for chunk in model.stream(question)),
        "messages tools": tool,
    }
)
