const trace = decodeTrace(JSON.parse(document.getElementById("data").textContent));
document.getElementById("main").textContent = `${formatCount(trace.ops.count)} ops of ${trace.streams.length} streams`;
