// Starts the playground. A page opened from disk may not load its parts, and keeps its sentence.
{
  const base = document.currentScript.src.replace(/[^/]*$/, "");
  const place = document.getElementById("playground");
  if (location.protocol !== "file:") {
    import(`${base}app.js`)
      .then(({ start }) => start(place, base))
      .catch((error) => { place.textContent = `The playground cannot start: ${error.message}.`; });
  }
}
