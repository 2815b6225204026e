package bench

import (
	"net"

	"github.com/gofiber/fiber/v2"
)

// Echo responds to every POST on l with the same body until stop is called. It measures only the HTTP library.
func Echo(l net.Listener, body []byte) (stop func() error) {
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Post("/*", func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
		return c.Send(body)
	})
	served := make(chan error, 1)
	go func() { served <- app.Listener(l) }()
	return func() error {
		if err := app.Shutdown(); err != nil {
			return err
		}
		return <-served
	}
}
